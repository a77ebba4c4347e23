import { z } from 'zod';
import { contextIdSchema, languageNameSchema } from './events.ts';
import { languageSchema } from './executions.ts';
import { boxPathSchema } from './files.ts';
import { environmentSchema } from './limits.ts';
import { pageSchema } from './page.ts';
import { foreignText } from './text.ts';

export const createContextSchema = z
  .strictObject({
    language: languageSchema.optional().meta({ description: 'Default: the first one of the template.' }),
    cwd: boxPathSchema.optional().meta({ description: 'Working folder, relative to /mnt/data; it has to exist.' }),
    env: environmentSchema
      .optional()
      .meta({ description: 'Added to the environment of the box, for as long as the context lives.' }),
  })
  .meta({ id: 'CreateContext' });

export type CreateContext = z.infer<typeof createContextSchema>;

export const contextSchema = z
  .object({
    id: contextIdSchema,
    language: languageNameSchema,
    default: z.boolean().meta({ description: 'Whether executions that name only its language run here.' }),
    cwd: foreignText(4096).meta({ description: 'Where it was started, relative to /mnt/data; "" is that folder.' }),
    state: z.enum(['starting', 'idle', 'busy', 'dead']),
    createdAt: z.iso.datetime(),
    lastActivityAt: z.iso.datetime(),
  })
  .meta({ id: 'Context' });

export type Context = z.infer<typeof contextSchema>;

export const contextPageSchema = pageSchema('ContextPage', contextSchema);

const amount = z.int().min(0);

/** A variable as it is told of: never its value. What its code does to be shown is bounded in time and memory. */
export const variableSchema = z
  .object({
    name: foreignText(256),
    type: foreignText(256).meta({ description: 'The name of its class.' }),
    shape: z.array(amount).max(32).optional().meta({ description: 'Of arrays and tables.' }),
    length: amount.optional(),
    sizeBytes: amount.optional().meta({ description: 'Of itself, without what it refers to.' }),
    preview: foreignText(1000).meta({ description: 'Its beginning as text, or its class when it cannot be shown.' }),
  })
  .meta({ id: 'Variable' });

export type Variable = z.infer<typeof variableSchema>;

export const variablePageSchema = pageSchema('VariablePage', variableSchema);
