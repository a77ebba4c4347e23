import { z } from 'zod';
import { boxPathSchema } from '../files/files.ts';
import { environmentSchema } from '../values/limits.ts';
import { pageSchema } from '../values/page.ts';
import { foreignText } from '../values/text.ts';
import { contextIdSchema, languageNameSchema } from './events.ts';
import { languageSchema } from './executions.ts';

export const createContextSchema = z
  .strictObject({
    language: languageSchema.optional().meta({ description: 'Default: the `language` of the template.' }),
    cwd: boxPathSchema.optional().meta({ description: 'Working folder, relative to /mnt/data; it must exist.' }),
    python: boxPathSchema.optional().meta({
      description:
        'The folder of a virtual environment, relative to /mnt/data, whose Python runs the kernel. It needs the Python version of the box.',
    }),
    env: environmentSchema.optional().meta({ description: 'Added to the environment of the box for this context.' }),
  })
  .meta({ id: 'CreateContext' });

export type CreateContext = z.infer<typeof createContextSchema>;

export const contextSchema = z
  .object({
    id: contextIdSchema,
    language: languageNameSchema,
    default: z.boolean().meta({ description: 'Whether executions that name only its language run here.' }),
    cwd: foreignText(4096).meta({
      description: 'The folder where it was started, relative to /mnt/data; "" is /mnt/data itself.',
    }),
    state: z.enum(['starting', 'idle', 'busy', 'dead']),
    createdAt: z.iso.datetime(),
    lastActivityAt: z.iso.datetime(),
  })
  .meta({ id: 'Context' });

export type Context = z.infer<typeof contextSchema>;

export const contextPageSchema = pageSchema('ContextPage', contextSchema);

const amount = z.int().min(0);

/**
 * Description of a variable, never its value. The box limits the time and memory of user code that produces the
 * preview.
 */
export const variableSchema = z
  .object({
    name: foreignText(256),
    type: foreignText(256).meta({ description: 'The name of its class.' }),
    shape: z.array(amount).max(32).optional().meta({ description: 'The shape of an array or a table.' }),
    length: amount.optional(),
    sizeBytes: amount
      .optional()
      .meta({ description: 'The size of the object itself, without the objects that it refers to.' }),
    preview: foreignText(1000).meta({
      description: 'The beginning of the value as text, or its class when it cannot be shown.',
    }),
  })
  .meta({ id: 'Variable' });

export type Variable = z.infer<typeof variableSchema>;

export const variablePageSchema = pageSchema('VariablePage', variableSchema);
