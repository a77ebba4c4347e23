import { z } from 'zod';
import { changedFilesSchema } from '../files/files.ts';
import { causeSchema } from '../values/cause.ts';
import { cpuSecondsSchema, environmentSchema } from '../values/limits.ts';
import { pageSchema } from '../values/page.ts';
import { plainText, wellFormedText } from '../values/text.ts';
import { commandEventSchema, leftProcessesSchema, runStatuses } from './events.ts';
import { installationHintSchema, installedPackagesSchema } from './packages.ts';

/** Fields that describe a process. */
export const commandFields = {
  command: plainText().min(1).max(131_072).optional().meta({ description: 'A command line for bash.' }),
  argv: z
    .array(plainText().max(131_072))
    .min(1)
    .max(1024)
    .optional()
    .meta({ description: 'A program and its arguments, run without a shell.' }),
  cwd: plainText().max(4096).optional().meta({ description: 'Relative to /mnt/data, or absolute.' }),
  stdin: wellFormedText()
    .max(1_048_576)
    .optional()
    .meta({ description: 'Written to stdin, which is then closed. Without it stdin is empty.' }),
};

export const createCommandSchema = z
  .strictObject({
    ...commandFields,
    env: environmentSchema.optional(),
    timeoutSeconds: z
      .number()
      .min(0.1)
      .max(86_400)
      .optional()
      .meta({ description: 'Default 60; a detached command has no timeout by default.' }),
    cpuSeconds: cpuSecondsSchema.optional().meta({
      description:
        'CPU time of the command and everything that it starts; beyond it the command ends with cause cpu_limit.',
    }),
    detach: z.boolean().optional(),
    openStdin: z.boolean().optional().meta({
      description: 'Keep stdin open for `…/input`. Default true for a detached command without `stdin`, else false.',
    }),
  })
  .refine((body) => (body.command === undefined) !== (body.argv === undefined), 'must have either command or argv')
  .meta({ id: 'CreateCommand' });

export type CreateCommand = z.infer<typeof createCommandSchema>;

export const commandSummarySchema = z
  .object({
    id: z.string(),
    box: z.string(),
    command: z.string().nullable(),
    argv: z.array(z.string()).nullable(),
    cwd: z.string().meta({
      description:
        'The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.',
    }),
    pid: z.int().nullable(),
    status: z.enum(['running', ...runStatuses]),
    cause: causeSchema.optional(),
    exitCode: z.int().nullable(),
    signal: z.string().nullable(),
    durationMs: z.number().nullable(),
    cpuMs: z.number().nullable(),
    processes: leftProcessesSchema.nullable(),
    files: changedFilesSchema.nullable(),
    installed: installedPackagesSchema
      .optional()
      .meta({ description: 'For an installation: the packages that it added or changed.' }),
    hint: installationHintSchema,
    lastSeq: z.int(),
  })
  .meta({ id: 'CommandSummary' });

export type CommandSummary = z.infer<typeof commandSummarySchema>;

export const commandSchema = commandSummarySchema
  .extend({
    stdout: z.string(),
    stderr: z.string(),
    outputs: z
      .array(commandEventSchema)
      .meta({ description: 'Both streams in order: every event except started and done.' }),
  })
  .meta({ id: 'Command' });

export type Command = z.infer<typeof commandSchema>;

export const commandPageSchema = pageSchema('CommandPage', commandSummarySchema);

export const commandInputSchema = z
  .strictObject({
    text: wellFormedText().max(1_048_576).optional(),
    base64: z.base64().max(1_398_104).optional(),
    eof: z.boolean().optional().meta({ description: 'Close stdin after this.' }),
  })
  .refine((body) => body.text === undefined || body.base64 === undefined, 'must not have both text and base64')
  .refine(
    (body) => body.text !== undefined || body.base64 !== undefined || body.eof === true,
    'must have text, base64 or eof',
  )
  .meta({ id: 'CommandInput' });

export type CommandInput = z.infer<typeof commandInputSchema>;
