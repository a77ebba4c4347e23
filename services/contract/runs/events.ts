import { z } from 'zod';
import { changedFilesSchema } from '../files/files.ts';
import { causeSchema, exitCode } from '../values/cause.ts';
import { queryInteger } from '../values/page.ts';
import { foreignText, plainText } from '../values/text.ts';
import { hintSchema, installationHintSchema, installedPackagesSchema, packageManagerSchema } from './packages.ts';

// The events of a box are untrusted input: each number has to fit a date, a column and a metric, and each text has a bound.
const seq = z.int().min(1);
/** Wall time. A box lives for at most 2.6e9 ms. */
const wallMs = z.number().min(0).max(1e10);
/** Time of all CPUs together. */
const cpuMs = z.number().min(0).max(1e12);
const amount = z.int().min(0);
/** In characters; a box cuts names at 64 Ki and tracebacks at 1 Mi, and appends a note about the cut. */
const maxField = 66_000;
const maxText = 1_050_000;
const maxFrames = 20_000;
/** The id of a context: Jupyter's id of its kernel. */
export const contextIdSchema = plainText().min(1).max(64);

/** The name of a language. An image may have languages beyond the built-in ones. */
export const languageNameSchema = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be the name of a language in lower case, such as python');

/** The gateway adds it to what a box sends, so that a reader of the stream can resume it. */
const runId = z.string().max(64).optional();

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

const metadata = z.record(z.string(), z.unknown()).optional().meta({
  description: 'What a program says about its data, by MIME type, such as the width and height of an image.',
});

/** How a run ended. `error`: the program failed. `lost`: its result is unknown, and it was not run again. */
export const runStatuses = ['ok', 'error', 'timeout', 'interrupted', 'oom', 'killed', 'output_limit', 'lost'] as const;

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
  .meta({
    id: 'OutputTruncated',
    description: 'Output was dropped at this point because the run printed more than is kept.',
  });

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
    hint: hintSchema,
  })
  .meta({ id: 'RunError' });

export type RunError = z.infer<typeof runErrorSchema>;

/** One event of an execution. `seq` counts from 1 without gaps; the last event is the only `done`. */
export const executionEventSchema = z
  .discriminatedUnion('type', [
    z
      .object({
        seq,
        type: z.literal('started'),
        context: contextIdSchema,
        language: languageNameSchema,
        executionCount: amount.nullable().optional(),
        execution: runId.meta({ description: 'The id of the execution, with which its events can be read again.' }),
      })
      .meta({ id: 'ExecutionStarted' }),
    stdoutEvent.extend({ origin }).meta({ id: 'ExecutionStdout' }),
    stderrEvent.extend({ origin }).meta({ id: 'ExecutionStderr' }),
    truncatedEvent,
    z.object({ seq, type: z.literal('result'), mime, metadata, main: z.literal(true) }).meta({ id: 'ExecutionResult' }),
    z
      .object({
        seq,
        type: z.literal('display'),
        mime,
        metadata,
        displayId: z.string().max(maxField).optional(),
        origin,
      })
      .meta({ id: 'ExecutionDisplay' }),
    z
      .object({ seq, type: z.literal('display_update'), mime, metadata, displayId: z.string().max(maxField), origin })
      .meta({ id: 'ExecutionDisplayUpdate' }),
    z.object({ seq, type: z.literal('clear'), wait: z.boolean(), origin }).meta({ id: 'ExecutionClear' }),
    z
      .object({ seq, type: z.literal('input_request'), prompt: z.string().max(maxText), password: z.boolean() })
      .meta({ id: 'ExecutionInputRequest' }),
    z
      .object({
        seq,
        type: z.literal('error'),
        name: z.string().max(maxField),
        value: z.string().max(maxField),
        traceback: z.array(z.string().max(maxText)).max(maxFrames),
        hint: hintSchema,
      })
      .meta({ id: 'ExecutionError' }),
    z
      .object({
        seq,
        type: z.literal('install'),
        manager: packageManagerSchema,
        packages: installedPackagesSchema,
        exitCode: exitCode.nullable(),
        text: z.string().max(maxText),
      })
      .meta({ id: 'ExecutionInstall' }),
    z
      .object({
        seq,
        type: z.literal('reply'),
        expressions: z.record(z.string().max(maxField), z.record(z.string(), z.unknown())),
        payload: z.array(z.record(z.string(), z.unknown())).max(100),
      })
      .meta({
        id: 'ExecutionReply',
        description:
          'What a Jupyter client learns from the reply of its kernel: the values of its expressions, and requests such as to show a help text.',
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
    hint: installationHintSchema,
  })
  .meta({ id: 'CommandDone' });

export type CommandDone = z.infer<typeof commandDoneSchema>;

const cellEvent = z
  .object({
    seq,
    type: z.literal('cell'),
    index: amount.meta({ description: 'The place of the cell among all cells of the notebook, from 0.' }),
    cells: amount.meta({ description: 'How many cells the notebook has, those with text included.' }),
    id: foreignText(64).nullable(),
    status: z.enum(['running', 'ok', 'error']),
    executionCount: amount.nullable().optional(),
    durationMs: wallMs.optional(),
    outputs: z.array(z.record(z.string(), z.unknown())).max(100_000).nullable().optional().meta({
      description:
        'The outputs of a cell that has ended, as in the file; null when they are larger than 1 MiB, and then only the file has them.',
    }),
  })
  .meta({ id: 'NotebookCell', description: 'A code cell of a notebook begins or has ended.' });

/** One event of a command; events are numbered as those of executions are. */
export const commandEventSchema = z
  .discriminatedUnion('type', [
    z
      .object({
        seq,
        type: z.literal('started'),
        pid: amount,
        command: runId.meta({ description: 'The id of the command, with which its events can be read again.' }),
      })
      .meta({ id: 'CommandStarted' }),
    stdoutEvent.meta({ id: 'CommandStdout' }),
    stderrEvent.meta({ id: 'CommandStderr' }),
    cellEvent,
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
