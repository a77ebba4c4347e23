import { z } from 'zod';
import { changedFilesSchema, inlineFileSchema } from '../files/files.ts';
import { causeSchema } from '../values/cause.ts';
import { cpuSecondsSchema, environmentSchema } from '../values/limits.ts';
import { pageSchema } from '../values/page.ts';
import { plainText, wellFormedText } from '../values/text.ts';
import {
  executionEventSchema,
  languageNameSchema,
  leftProcessesSchema,
  runErrorSchema,
  runStatuses,
} from './events.ts';

export const languageSchema = languageNameSchema.meta({
  id: 'Language',
  description:
    'One of the languages of the box, such as python, javascript, typescript or bash; py, python3, js, node, ts and sh ' +
    'are aliases.',
});

/** Source text: at most 1 MiB of characters. */
export const codeSchema = wellFormedText().max(1_048_576);

/** Wall time of a run, in seconds; time in the queue does not count. */
export const timeoutSecondsSchema = z.number().min(0.1).max(3600);

/** Fields that describe code to run. */
export const executionFields = {
  code: codeSchema,
  language: languageSchema.optional().meta({
    description: 'Default: the `language` of the template. The code runs in the default context of the language.',
  }),
  context: plainText().max(64).optional().meta({ description: 'Run in this context instead.' }),
  timeoutSeconds: timeoutSecondsSchema.optional().meta({ description: 'Default 60.' }),
  cpuSeconds: cpuSecondsSchema.optional().meta({
    description: 'CPU time of the run and everything that it starts; beyond it the run ends with cause cpu_limit.',
  }),
  env: environmentSchema.optional().meta({ description: 'Set for this run only.' }),
  autoInstall: z.boolean().optional().meta({
    description: 'Install a missing module and run the code again, once, provided that only imports had run by then.',
  }),
  files: z.array(inlineFileSchema).min(1).max(256).optional().meta({
    description: 'Written to the box before the code runs, in their order; existing files are replaced.',
  }),
};

/** Adds to a schema that it takes a language or a context but not both. */
export const languageOrContext = <T extends z.ZodType<{ language?: string | undefined; context?: string | undefined }>>(
  schema: T,
) =>
  schema.refine((body) => body.context === undefined || body.language === undefined, {
    path: ['language'],
    message: 'must be left out with context, which has its own',
  });

export const besideCode = 'Only for a body that is plain code; a JSON body has it as a key.';

/** Fields in the query of a request whose body is plain code. */
export const codeQueryFields = {
  timeoutSeconds: z.coerce.number().pipe(timeoutSecondsSchema).optional().meta({ description: besideCode }),
  cpuSeconds: z.coerce.number().pipe(cpuSecondsSchema).optional().meta({ description: besideCode }),
};

/** A boolean in the query of a request whose body is plain code. */
export const flagInQuery = () =>
  z
    .enum(['true', 'false'])
    .transform((value) => value === 'true')
    .optional()
    .meta({ description: besideCode });

/** The query of an execution whose body is plain code. */
export const executionCodeQuerySchema = z.strictObject({
  ...codeQueryFields,
  context: executionFields.context.meta({ description: besideCode }),
  autoInstall: flagInQuery(),
  detach: flagInQuery(),
});

export const createExecutionSchema = languageOrContext(
  z.strictObject({
    ...executionFields,
    detach: z.boolean().optional().meta({ description: 'Respond with 202 at once; read the events later.' }),
  }),
).meta({ id: 'CreateExecution' });

export type CreateExecution = z.infer<typeof createExecutionSchema>;

export const executionSummarySchema = z
  .object({
    id: z.string(),
    box: z.string(),
    context: z.string().nullable(),
    language: z.string().nullable(),
    status: z.enum(['running', ...runStatuses]),
    cause: causeSchema.optional(),
    createdAt: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable().meta({ description: 'Null while it waits for others in its context.' }),
    finishedAt: z.iso.datetime().nullable(),
    executionCount: z.int().nullable(),
    durationMs: z.number().nullable(),
    queuedMs: z.number().nullable(),
    cpuMs: z.number().nullable(),
    peakMemoryBytes: z.int().nullable(),
    stateLost: z.boolean(),
    processes: leftProcessesSchema.nullable(),
    files: changedFilesSchema.nullable(),
    lastSeq: z.int(),
  })
  .meta({ id: 'ExecutionSummary' });

export type ExecutionSummary = z.infer<typeof executionSummarySchema>;

export const executionSchema = executionSummarySchema
  .extend({
    text: z.string().nullable().meta({ description: 'The plain text of the main result.' }),
    error: runErrorSchema.nullable(),
    outputs: z.array(executionEventSchema).nullable().meta({
      description: 'All outputs in order: every event except started and done. Null when the box no longer has them.',
    }),
  })
  .meta({ id: 'Execution' });

export type Execution = z.infer<typeof executionSchema>;

export const executionPageSchema = pageSchema('ExecutionPage', executionSummarySchema);

export const executionInputSchema = z
  .strictObject({ text: wellFormedText().max(1_048_576) })
  .meta({ id: 'ExecutionInput' });
