import { z } from 'zod';
import { inlineFileSchema } from '../files/files.ts';
import { commandFields } from '../runs/commands.ts';
import { commandEventSchema, executionEventSchema, runErrorSchema, runStatuses } from '../runs/events.ts';
import {
  besideCode,
  codeQueryFields,
  codeSchema,
  executionFields,
  flagInQuery,
  languageSchema,
  timeoutSecondsSchema,
} from '../runs/executions.ts';
import { packageSpecsSchema } from '../runs/packages.ts';
import { causeSchema } from '../values/cause.ts';
import { cpuSecondsSchema, environmentSchema, limitsSchema } from '../values/limits.ts';
import { plainText, wellFormedText } from '../values/text.ts';
import { networkPolicySchema } from './boxes.ts';

/** Which of these keys a body has, other than those that belong to it. */
const misplaced = (body: Record<string, unknown>, keys: readonly string[]): string | undefined =>
  keys.find((key) => body[key] !== undefined);

/** A refinement: refuses each of `keys` in a body for which `applies`. */
const without =
  <B extends Record<string, unknown>>(
    applies: (body: B) => boolean,
    keys: readonly (keyof B & string)[],
    why: string,
  ) =>
  (body: B, ctx: z.RefinementCtx<B>): void => {
    const key = applies(body) ? misplaced(body, keys) : undefined;
    if (key !== undefined) ctx.addIssue({ code: 'custom', path: [key], message: why });
  };

/** One step of a run: `code` in a kernel, or a process. */
export const runStepSchema = z
  .strictObject({
    code: codeSchema.optional(),
    language: executionFields.language,
    autoInstall: executionFields.autoInstall,
    command: commandFields.command,
    argv: commandFields.argv,
    cwd: commandFields.cwd,
    stdin: commandFields.stdin,
    env: environmentSchema.optional(),
    timeoutSeconds: timeoutSecondsSchema.optional().meta({ description: 'Default 60.' }),
    cpuSeconds: cpuSecondsSchema.optional(),
  })
  .refine(
    ({ code, command, argv }) => [code, command, argv].filter((given) => given !== undefined).length === 1,
    'must have either code, command or argv',
  )
  .superRefine(without(({ code }) => code !== undefined, ['cwd', 'stdin'], 'belongs to a command'))
  .superRefine(without(({ code }) => code === undefined, ['language', 'autoInstall'], 'belongs to code'))
  .meta({ id: 'RunStep' });

export type RunStep = z.infer<typeof runStepSchema>;

/** Which of the created and changed files a run returns. */
export const returnedFiles = ['none', 'names', 'content'] as const;

const returnFilesSchema = z.enum(returnedFiles).meta({
  description: 'The changed files in the response: none, their names and sizes, or (default) their content in base64.',
});

/**
 * One run in a fresh box. With `code` alone, it runs in a kernel, so results and figures are returned. With `files`,
 * `stdin` or `args`, it runs as a program: the code (or the first file) is the main file, which gets `args` and
 * `stdin`. With `steps`, they run one after the other in one box that has the `files`, up to the first that fails.
 */
export const createRunSchema = z
  .strictObject({
    language: languageSchema.optional().meta({ description: 'Default: the `language` of the template.' }),
    code: codeSchema.optional(),
    steps: z.array(runStepSchema).min(1).max(32).optional(),
    files: z.array(inlineFileSchema).min(1).max(256).optional(),
    stdin: wellFormedText().max(1_048_576).optional(),
    args: z.array(plainText().max(131_072)).max(256).optional(),
    env: environmentSchema.optional(),
    autoInstall: executionFields.autoInstall,
    timeoutSeconds: timeoutSecondsSchema.optional(),
    cpuSeconds: cpuSecondsSchema.optional(),
    limits: limitsSchema.partial().optional(),
    template: plainText().min(1).max(64).optional(),
    network: networkPolicySchema.optional(),
    packages: packageSpecsSchema
      .optional()
      .meta({ description: 'Python packages to install before the run, as in InstallPackages.' }),
    returnFiles: returnFilesSchema.optional(),
  })
  .refine((body) => body.code !== undefined || body.files !== undefined || body.steps !== undefined, {
    path: ['code'],
    message: 'is needed where there are neither files nor steps',
  })
  .superRefine(
    without(
      ({ steps }) => steps !== undefined,
      ['language', 'code', 'stdin', 'args', 'env', 'autoInstall', 'timeoutSeconds', 'cpuSeconds'],
      'belongs into each of the steps',
    ),
  )
  .superRefine(
    without(
      ({ files, stdin, args }) => (files ?? stdin ?? args) !== undefined,
      ['autoInstall'],
      'is for code in a kernel, so without files, stdin and args',
    ),
  )
  .meta({ id: 'CreateRun' });

/** The query of a run whose body is plain code. */
export const runCodeQuerySchema = z.strictObject({
  ...codeQueryFields,
  template: plainText().min(1).max(64).optional().meta({ description: besideCode }),
  network: networkPolicySchema.optional().meta({ description: besideCode }),
  autoInstall: flagInQuery(),
  returnFiles: returnFilesSchema.optional().meta({ description: besideCode }),
});

export type CreateRun = z.infer<typeof createRunSchema>;

const runFileSchema = z
  .object({
    path: z.string(),
    change: z.enum(['created', 'modified']),
    sizeBytes: z.int(),
    base64: z.string().nullable().meta({
      description: 'Null for a file over 4 MiB, or beyond 16 MiB in total, and with `"returnFiles": "names"`.',
    }),
  })
  .meta({ id: 'RunFile' });

/** The number of a step, from 0: its place in `steps`. */
const step = z.int().min(0);

/**
 * One event of a run in a fresh box: those of each step up to its `done`, then one for each changed file, then `end`.
 * `seq` counts from 1 without gaps. The events of a request with `steps` have the number of theirs.
 */
export const runEventSchema = z
  .union([
    z.intersection(z.union([executionEventSchema, commandEventSchema]), z.object({ step: step.optional() })),
    runFileSchema.extend({ seq: z.int().min(1), type: z.literal('file') }).meta({ id: 'RunFileEvent' }),
    z
      .object({ seq: z.int().min(1), type: z.literal('end'), status: z.enum(runStatuses) })
      .meta({ id: 'RunEnd', description: 'The last event, with the status of the last step that ran.' }),
  ])
  .meta({ id: 'RunEvent' });

export type RunEvent = z.infer<typeof runEventSchema>;

const runResultFields = {
  status: z.enum(runStatuses),
  cause: causeSchema.optional(),
  exitCode: z.int().nullable().meta({ description: 'The exit code of a program; null for code in a kernel.' }),
  text: z.string().nullable(),
  error: runErrorSchema.nullable(),
  stdout: z.string(),
  stderr: z.string(),
  outputs: z.array(z.union([executionEventSchema, commandEventSchema])),
  signal: z
    .string()
    .nullable()
    .meta({ description: 'The signal that ended a program, such as SIGSEGV; null for code in a kernel.' }),
  durationMs: z.number(),
  cpuMs: z.number().nullable().meta({ description: 'CPU time of the run; null if the box does not report it.' }),
};

export const runStepResultSchema = z.object(runResultFields).meta({ id: 'RunStepResult' });

export type RunStepResult = z.infer<typeof runStepResultSchema>;

export const runSchema = z
  .object({
    ...runResultFields,
    files: z.array(runFileSchema).meta({ description: 'Files that the run created or changed.' }),
    steps: z.array(runStepResultSchema).optional().meta({
      description:
        'For a request with `steps`: the result of each step that ran. The other fields are those of the last.',
    }),
  })
  .meta({ id: 'Run' });

export type Run = z.infer<typeof runSchema>;
