import { z } from 'zod';
import { plainText } from '../values/text.ts';
import { languageNameSchema } from './events.ts';
import { languageSchema, timeoutSecondsSchema } from './executions.ts';

const pathSchema = plainText().min(1).max(4096);

export const runNotebookSchema = z
  .strictObject({
    path: pathSchema.meta({ description: 'The `.ipynb` file, relative to /mnt/data, or absolute.' }),
    output: pathSchema.optional().meta({
      description: 'Write the notebook with its outputs here; by default into the file itself.',
    }),
    parameters: z.record(z.string().min(1).max(100), z.unknown()).optional().meta({
      description:
        'Variables that are set in a cell of their own, after the one with the tag `parameters`, or before all others.',
    }),
    onError: z.enum(['stop', 'continue']).optional().meta({
      description: 'Whether the first cell that fails is the last one. Default: stop.',
    }),
    language: languageSchema.optional().meta({ description: 'Default: that of the kernel which the notebook names.' }),
    cellTimeoutSeconds: timeoutSecondsSchema.optional().meta({
      description: 'Wall time of one cell, which is then interrupted and fails. Default: that of the run.',
    }),
    timeoutSeconds: z.number().min(0.1).max(86_400).optional().meta({
      description: 'Wall time of the run. Default 600; a detached run has no timeout by default.',
    }),
    detach: z.boolean().optional().meta({ description: 'Respond with 202 at once; read the events later.' }),
  })
  .meta({ id: 'RunNotebook' });

export type RunNotebook = z.infer<typeof runNotebookSchema>;

export const notebookQuerySchema = z.strictObject({
  context: plainText().min(1).max(64).optional().meta({ description: 'Only the executions of this context.' }),
  language: languageNameSchema.optional().meta({
    description: 'All executions in this language; python if neither is given.',
  }),
});

export type NotebookQuery = z.infer<typeof notebookQuerySchema>;
