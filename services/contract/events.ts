import { z } from 'zod';
import { changedFilesSchema } from './files.ts';
import { installedPackagesSchema, packageHintSchema, packageManagerSchema } from './packages.ts';
import { queryInteger } from './page.ts';
import { foreignText, plainText } from './text.ts';

// What a box sends is hostile input: each number has to fit a date, a column and a metric, and each text has a bound.
const seq = z.int().min(1);
/** Wall time. A box lives for at most 2.6e9 ms. */
const wallMs = z.number().min(0).max(1e10);
/** Time of all CPUs together. */
const cpuMs = z.number().min(0).max(1e12);
const amount = z.int().min(0);
/** In UTF-16 units; a box cuts names at 64 Ki and tracebacks at 1 Mi, and appends a note about the cut. */
const maxField = 66_000;
const maxText = 1_050_000;
const maxFrames = 20_000;
/** A box has at most 1 TiB of anything; an integer that a number cannot hold is refused. */
const bytes = z.int().min(0);
const exitCode = z.int().min(-0x8000_0000).max(0x7fff_ffff);
/** The id of a context: Jupyter's id of its kernel. */
export const contextIdSchema = plainText().min(1).max(64);

/** The name of a language. A template may offer languages beyond the built-in ones. */
export const languageNameSchema = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be the name of a language in lower case, such as python');

/** A bundle of more is none: each of its names would be looked at. */
const maxKinds = 100;

const mime = z
  .preprocess(
    (value) => (typeof value === 'object' && value !== null && Object.keys(value).length > maxKinds ? null : value),
    z.record(z.string(), z.unknown()),
  )
  .meta({
    description: 'Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.',
  });

/** How a run ended. `error`: the program failed. `lost`: its result is unknown, and it was not run again. */
export const runStatuses = ['ok', 'error', 'timeout', 'interrupted', 'oom', 'killed', 'output_limit', 'lost'] as const;

const causeCodes = [
  'timeout (stage says what it took to stop the run)',
  'cpu_limit (the status is timeout; quota when it was the day of the tenant, of all its boxes)',
  'output_limit',
  'interrupted',
  'signal (signal has its name)',
  'exit (exitCode has its code)',
  'oom (process says whose)',
  'disk_full (usedBytes and limitBytes of the volume)',
  'pids_limit (the run filled the box with processes, and what it left running was ended)',
  'kernel_start (the kernel did not start or did not respond in time: no code has run)',
  'restarted, context_deleted (the context was restarted or deleted)',
  'box_… (the box has ended: box_deleted, box_idle, box_lost, box_memory_limit, box_unresponsive, …)',
  'not_started (none of the code has run or will run: try again)',
  'journal_lost, protocol_error, no_end (the box did not report the end)',
  'internal (the kernel or the box server itself failed, at no fault of the code; the status is killed)',
];

/**
 * Why a run ended as it did, beyond what its code did by itself. `oom` with process `child` comes with any status,
 * including `ok`: the code went on without that process. `disk_full` and `pids_limit` come with `error`: the code
 * failed while there was no room. `pids_limit` with `killed` means that the box ended the run, or the processes it had
 * left, to make room for others.
 */
export const causeSchema = z
  .object({
    code: foreignText(64).meta({ description: `${causeCodes.join('; ')}.` }),
    detail: foreignText(2000),
    stage: z
      .enum(['interrupt', 'restart', 'box'])
      .optional()
      .meta({ description: 'What it took to stop the run: an interrupt, a new kernel, or the end of the box.' }),
    signal: foreignText(32).optional(),
    exitCode: exitCode.optional(),
    process: z.enum(['kernel', 'command', 'child']).optional().meta({
      description: 'Which process ran out of memory: the kernel with the variables, the command, or another process.',
    }),
    peakMemoryBytes: bytes.optional().meta({ description: 'The peak memory of the whole box until then.' }),
    quota: z
      .object({ name: foreignText(64), limit: amount, used: amount })
      .optional()
      .meta({
        description: "For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.",
      }),
    usedBytes: bytes.optional(),
    limitBytes: bytes.optional().meta({ description: 'The limit of memory for oom, of the volume for disk_full.' }),
  })
  .meta({ id: 'Cause' });

export type Cause = z.infer<typeof causeSchema>;

/** A process that a run started and that still runs at its end. */
const leftProcessSchema = z
  .object({
    pid: amount,
    command: foreignText(200),
    ageMs: amount.optional(),
    memoryBytes: amount,
  })
  .meta({ id: 'LeftProcess' });

const maxLeftProcesses = 20;

/** The largest processes come first; at most 20 are reported. */
export const leftProcessesSchema = z
  .array(leftProcessSchema)
  .overwrite((processes) => processes.slice(0, maxLeftProcesses))
  .meta({
    id: 'LeftProcesses',
    description: 'Processes that the run started and that still run, including daemons: at most 20, largest first.',
  });

const stdoutEvent = z.object({ seq, type: z.literal('stdout'), text: z.string() });
const stderrEvent = z.object({ seq, type: z.literal('stderr'), text: z.string() });
const truncatedEvent = z
  .object({ seq, type: z.literal('truncated'), droppedBytes: amount, droppedEvents: amount })
  .meta({ description: 'Output was dropped at this point because the run printed more than is kept.' });

const origin = foreignText(200).optional().meta({
  description:
    'The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.',
});

const runDoneFields = {
  seq,
  type: z.literal('done'),
  status: z.enum(runStatuses),
  cause: causeSchema.optional(),
  durationMs: wallMs,
  cpuMs: cpuMs.optional(),
  processes: leftProcessesSchema.optional(),
  files: changedFilesSchema.optional(),
};

export const executionDoneSchema = z
  .object({
    ...runDoneFields,
    executionCount: amount.nullable().optional(),
    queuedMs: wallMs.optional(),
    peakMemoryBytes: amount.nullable().optional(),
    stateLost: z.boolean().meta({ description: 'Whether the variables of the context are lost.' }),
  })
  .meta({ id: 'ExecutionDone' });

export type ExecutionDone = z.infer<typeof executionDoneSchema>;

/** An error of a program, as part of a whole result. */
export const runErrorSchema = z
  .object({
    name: z.string(),
    value: z.string(),
    traceback: z.array(z.string()),
    hint: packageHintSchema.optional(),
  })
  .meta({ id: 'RunError' });

export type RunError = z.infer<typeof runErrorSchema>;

/** One event of an execution. `seq` counts from 1 without gaps; the last event is the only `done`. */
export const executionEventSchema = z
  .discriminatedUnion('type', [
    z.object({
      seq,
      type: z.literal('started'),
      context: contextIdSchema,
      language: languageNameSchema,
      executionCount: amount.nullable().optional(),
    }),
    stdoutEvent.extend({ origin }),
    stderrEvent.extend({ origin }),
    truncatedEvent,
    z.object({ seq, type: z.literal('result'), mime, main: z.literal(true) }),
    z.object({ seq, type: z.literal('display'), mime, displayId: z.string().max(maxField).optional(), origin }),
    z.object({ seq, type: z.literal('display_update'), mime, displayId: z.string().max(maxField), origin }),
    z.object({ seq, type: z.literal('clear'), wait: z.boolean(), origin }),
    z.object({ seq, type: z.literal('input_request'), prompt: z.string().max(maxText), password: z.boolean() }),
    z.object({
      seq,
      type: z.literal('error'),
      name: z.string().max(maxField),
      value: z.string().max(maxField),
      traceback: z.array(z.string().max(maxText)).max(maxFrames),
      hint: packageHintSchema.optional(),
    }),
    z.object({
      seq,
      type: z.literal('install'),
      manager: packageManagerSchema,
      packages: installedPackagesSchema,
      exitCode: exitCode.nullable(),
      text: z.string().max(maxText),
    }),
    executionDoneSchema,
  ])
  .meta({ id: 'ExecutionEvent' });

export type ExecutionEvent = z.infer<typeof executionEventSchema>;

export const commandDoneSchema = z
  .object({
    ...runDoneFields,
    exitCode: exitCode.nullable(),
    signal: foreignText(32).nullable(),
    installed: installedPackagesSchema
      .optional()
      .meta({ description: 'Packages that an installation added or changed.' }),
  })
  .meta({ id: 'CommandDone' });

export type CommandDone = z.infer<typeof commandDoneSchema>;

/** One event of a command; events are numbered as those of executions are. */
export const commandEventSchema = z
  .discriminatedUnion('type', [
    z.object({ seq, type: z.literal('started'), pid: amount }),
    stdoutEvent,
    stderrEvent,
    truncatedEvent,
    commandDoneSchema,
  ])
  .meta({ id: 'CommandEvent' });

export type CommandEvent = z.infer<typeof commandEventSchema>;

/** Ends a stream before its last event and has no number: reopen the stream after the last event received. */
export const streamClosingSchema = z
  .object({ type: z.literal('closing'), reason: z.literal('restart'), detail: z.string() })
  .meta({ id: 'StreamClosing' });

export type StreamClosing = z.infer<typeof streamClosingSchema>;

/** Query of an event stream: only events after this `seq`. */
export const afterQuerySchema = z.strictObject({ after: queryInteger().min(0).optional() });
