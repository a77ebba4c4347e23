import { z } from 'zod';
import { CodeBoxError, type WatchEvent } from '#contract';
import { streamAs } from '../../../../http/bodies/stream.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { FileChange } from '../../../boxes/reach/file-watch.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { home, toBoxPath } from '../paths.ts';
import type { Running } from '../running.ts';
import { messages, readMessage } from './connect.ts';

export const watchSchema = z.object({
  path: z
    .string()
    .max(4096)
    .transform(toBoxPath)
    .refine((path) => !path.startsWith('/'), `lies outside ${home}, where changes are not reported`),
  recursive: z.boolean().default(false),
  includeEntry: z.literal(false, { error: 'is not supported' }).nullish(),
  allowNetworkMounts: z.literal(false, { error: 'is not supported' }).nullish(),
});

const types = {
  create: 'EVENT_TYPE_CREATE',
  write: 'EVENT_TYPE_WRITE',
  remove: 'EVENT_TYPE_REMOVE',
  rename: 'EVENT_TYPE_RENAME',
};

/**
 * Converts a change to events, with names relative to the watched folder. A rename is one of the old name and a new file. A new file with
 * content was written too, which boxes report as one change.
 */
export const toEvents = (event: FileChange, folder: string) => {
  const of = (type: keyof typeof types, path = event.path) => ({
    filesystem: { name: folder === '' ? path : path.slice(folder.length + 1), type: types[type] },
  });
  if (event.type === 'rename') return [of('rename', event.from), of('create')];
  const isWritten = event.type === 'create' && event.entry?.type === 'file' && event.entry.sizeBytes > 0;
  return isWritten ? [of('create'), of('write')] : [of(event.type)];
};

async function* toMessages(events: AsyncIterable<WatchEvent>, folder: string): AsyncGenerator<object> {
  for await (const event of events) {
    if (event.type === 'ready') yield { start: {} };
    else if ('path' in event) yield* toEvents(event, folder);
    else if (event.type === 'end') throw new CodeBoxError('gone', 'The sandbox was not found');
    else throw new CodeBoxError('unavailable', 'Changes were lost: list the folder and watch it again.');
  }
}

/** Throws `invalid_request` for the path of a file. */
export const requireFolder = async (files: RouteParts['files'], ref: BoxRef, path: string): Promise<void> => {
  if (path === '') return;
  const { entry } = await files.operate(ref, { op: 'stat', path }, AbortSignal.any([]));
  if (entry.type === 'file') throw new CodeBoxError('invalid_request', `The path ${path} is not a directory.`);
};

/** The stream of changes below a folder. */
export const addWatchRoute = (
  { addRaw }: Endpoints,
  { files, fileWatch, stopping }: Pick<RouteParts, 'files' | 'fileWatch' | 'stopping'>,
  running: Running,
): void =>
  addRaw(
    {
      method: 'post',
      path: '/filesystem.Filesystem/WatchDir',
      scope: 'files',
      summary: 'Watch a folder',
      tag: 'Filesystem',
      responses: {},
    },
    async ({ c }) => {
      const { path, recursive } = await readMessage(c, watchSchema);
      const leave = new AbortController();
      const ref = await running.of(c);
      await requireFolder(files, ref, path);
      const query = { path, recursive: recursive ? ('true' as const) : ('false' as const) };
      const events = await fileWatch.open(ref, query, leave.signal);
      const onError = (err: unknown) => c.get('log').debug({ err }, 'a watch was interrupted');
      const keepalive = messages.encode({ keepalive: {} });
      return streamAs(
        c,
        { ...messages, ping: keepalive },
        { events: toMessages(events, path), leave, stopping, onError },
      );
    },
  );
