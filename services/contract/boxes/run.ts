import { z } from 'zod';
import { inlineFileSchema } from '../files/files.ts';
import { commandEventSchema, executionEventSchema, runErrorSchema, runStatuses } from '../runs/events.ts';
import { besideCode, codeQueryFields, codeSchema, languageSchema, timeoutSecondsSchema } from '../runs/executions.ts';
import { packageSpecsSchema } from '../runs/packages.ts';
import { causeSchema } from '../values/cause.ts';
import { cpuSecondsSchema, environmentSchema, limitsSchema } from '../values/limits.ts';
import { plainText, wellFormedText } from '../values/text.ts';
import { networkPolicySchema } from './boxes.ts';

/**
 * One run in a fresh box. With `code` alone, it runs in a kernel, so results and figures are returned. With `files`,
 * `stdin` or `args`, it runs as a program: the code (or the first file) is the main file, which gets `args` and
 * `stdin`.
 */
export const createRunSchema = z
  .strictObject({
    language: languageSchema.optional().meta({ description: 'Default: the `language` of the template.' }),
    code: codeSchema.optional(),
    files: z.array(inlineFileSchema).min(1).max(256).optional(),
    stdin: wellFormedText().max(1_048_576).optional(),
    args: z.array(plainText().max(131_072)).max(256).optional(),
    env: environmentSchema.optional(),
    timeoutSeconds: timeoutSecondsSchema.optional(),
    cpuSeconds: cpuSecondsSchema.optional(),
    limits: limitsSchema.partial().optional(),
    template: plainText().min(1).max(64).optional(),
    network: networkPolicySchema.optional(),
    packages: packageSpecsSchema
      .optional()
      .meta({ description: 'Python packages to install before the run, as in InstallPackages.' }),
  })
  .refine((body) => body.code !== undefined || body.files !== undefined, {
    path: ['code'],
    message: 'is needed where there are no files',
  })
  .meta({ id: 'CreateRun' });

/** The query of a run whose body is plain code. */
export const runCodeQuerySchema = z.strictObject({
  ...codeQueryFields,
  template: plainText().min(1).max(64).optional().meta({ description: besideCode }),
  network: networkPolicySchema.optional().meta({ description: besideCode }),
});

export type CreateRun = z.infer<typeof createRunSchema>;

const runFileSchema = z
  .object({
    path: z.string(),
    change: z.enum(['created', 'modified']),
    sizeBytes: z.int(),
    base64: z.string().nullable().meta({ description: 'Null for a file over 4 MiB, or beyond 16 MiB in total.' }),
  })
  .meta({ id: 'RunFile' });

export const runSchema = z
  .object({
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
    files: z.array(runFileSchema).meta({ description: 'Files that the run created or changed.' }),
  })
  .meta({ id: 'Run' });

export type Run = z.infer<typeof runSchema>;
