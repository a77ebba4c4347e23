import { z } from 'zod';
import { causeSchema } from '../values/cause.ts';
import { queryInteger } from '../values/page.ts';
import { boxPathSchema, fileEntrySchema } from './files.ts';

const version = z.int().min(0).max(1_000_000_000_000);
/** A name that is not UTF-8 is reported with U+FFFD, so a path may be longer here than in a request. */
const path = z.string().max(16_384);

/** Query of a watch: what is below `path`, from version `after` on or from now on. */
export const watchQuerySchema = z.strictObject({
  path: z
    .union([z.literal(''), boxPathSchema])
    .optional()
    .meta({ description: 'Default: the working folder.' }),
  recursive: z.enum(['true', 'false']).optional().meta({ description: 'Include subfolders. Default true.' }),
  after: queryInteger()
    .min(0)
    .max(1_000_000_000_000)
    .optional()
    .meta({ description: 'The last version that the caller has seen; changes since then are sent first.' }),
});

export type WatchQuery = z.infer<typeof watchQuerySchema>;

/**
 * One line of a watch. Versions of changes count up by one for the whole box; a watch of one folder sees some of them.
 */
export const watchEventSchema = z
  .discriminatedUnion('type', [
    z
      .object({
        version,
        type: z.literal('ready'),
        mode: z.enum(['inotify', 'polling']),
        complete: z.boolean().meta({ description: 'False when there are more folders than can be watched.' }),
      })
      .meta({ id: 'WatchReady', description: 'The first event: all following changes happened after this version.' }),
    z
      .object({ version, type: z.enum(['create', 'write']), path, entry: fileEntrySchema.optional() })
      .meta({ id: 'WatchWrite' }),
    z.object({ version, type: z.literal('remove'), path }).meta({ id: 'WatchRemove' }),
    z.object({ version, type: z.literal('rename'), path, from: path, entry: fileEntrySchema.optional() }).meta({
      id: 'WatchRename',
      description: 'A folder moves with its contents; an earlier entry at `path` is replaced.',
    }),
    z.object({ version, type: z.literal('reset'), reason: z.enum(['forgotten', 'slow', 'limit', 'lost']) }).meta({
      id: 'WatchReset',
      description:
        'Changes are missing: list the folder anew. Either the changes after `after` are no longer known; or the reader was too slow, and the stream ends; ' +
        'or there are more folders than can be watched; or a scan failed.',
    }),
    z
      .object({ version, type: z.literal('end'), cause: causeSchema })
      .meta({ id: 'WatchEnd', description: 'The last event: the box has ended.' }),
  ])
  .meta({ id: 'WatchEvent' });

export type WatchEvent = z.infer<typeof watchEventSchema>;
