import { z } from 'zod';
import { causeSchema } from './events.ts';
import { boxPathSchema, fileEntrySchema } from './files.ts';
import { queryInteger } from './page.ts';

const version = z.int().min(0).max(1_000_000_000_000);
/** A name that is not UTF-8 comes with U+FFFD in it, so a path may be longer here than where it is given. */
const path = z.string().max(16_384);

/** Query of a watch: what is below `path`, from version `after` on or from now on. */
export const watchQuerySchema = z.strictObject({
  path: z
    .union([z.literal(''), boxPathSchema])
    .optional()
    .meta({ description: 'The working folder unless given.' }),
  recursive: z
    .enum(['true', 'false'])
    .optional()
    .meta({ description: 'Also what is in its folders: true unless given.' }),
  after: queryInteger()
    .min(0)
    .max(1_000_000_000_000)
    .optional()
    .meta({ description: 'The last version that was seen; what came since then is told first.' }),
});

export type WatchQuery = z.infer<typeof watchQuerySchema>;

/** One line of a watch. Versions of changes count up by one for the whole box; a watch of a part sees some of them. */
export const watchEventSchema = z
  .discriminatedUnion('type', [
    z
      .object({
        version,
        type: z.literal('ready'),
        mode: z.enum(['inotify', 'polling']),
        complete: z.boolean().meta({ description: 'False when there are more folders than are watched.' }),
      })
      .meta({ description: 'The first one: what comes now happened after this version.' }),
    z.object({ version, type: z.enum(['create', 'write']), path, entry: fileEntrySchema.optional() }),
    z.object({ version, type: z.literal('remove'), path }),
    z
      .object({ version, type: z.literal('rename'), path, from: path, entry: fileEntrySchema.optional() })
      .meta({ description: 'With all that is in a folder; what was at `path` is replaced.' }),
    z.object({ version, type: z.literal('reset'), reason: z.enum(['forgotten', 'slow', 'limit', 'lost']) }).meta({
      description:
        'Changes are missing: list anew. The changes after `after` are forgotten; the reader was too slow, and the stream ends; ' +
        'there are more folders than are watched; or a look failed.',
    }),
    z
      .object({ version, type: z.literal('end'), cause: causeSchema })
      .meta({ description: 'The last one: the box is gone.' }),
  ])
  .meta({ id: 'WatchEvent' });

export type WatchEvent = z.infer<typeof watchEventSchema>;
