import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import type { Running } from '../running.ts';
import { createUnaryCalls } from './unary.ts';
import { requireFolder, toEvents, watchSchema } from './watch.ts';

/** The id of a watcher contains these fields: the gateway keeps only the position up to which each was read. */
const watcherSchema = z.tuple([z.string(), z.string(), z.boolean(), z.int().min(0)]);
/** Beyond this many, the position of the least recently read watcher is forgotten: its next read returns all changes since its creation. */
const maxPositions = 10_000;
const removed = -1;

const idSchema = z.object({ watcherId: z.string().max(16_384) });

const unknown = () => new CodeBoxError('not_found', 'There is no such watcher.');

const readId = (id: string) => {
  try {
    const [, path, recursive, version] = watcherSchema.parse(JSON.parse(Buffer.from(id, 'base64url').toString()));
    return { path, recursive, version };
  } catch {
    throw unknown();
  }
};

/** Watchers that clients poll for changes instead of reading a stream: E2B's synchronous client for Python has no other kind. */
export const addWatcherRoutes = (
  endpoints: Endpoints,
  { files, fileWatch }: Pick<RouteParts, 'files' | 'fileWatch'>,
  running: Running,
): void => {
  const addCall = createUnaryCalls(endpoints, running, {
    name: 'filesystem.Filesystem',
    scope: 'files',
    tag: 'Filesystem',
  });
  /** By box and id. */
  const positions = new Map<string, number>();
  const setPosition = (key: string, version: number) => {
    positions.delete(key);
    const [oldest] = positions.size >= maxPositions ? positions.keys() : [];
    if (oldest !== undefined) positions.delete(oldest);
    positions.set(key, version);
  };
  const toQuery = ({ path, recursive }: { path: string; recursive: boolean }) => ({
    path,
    recursive: recursive ? ('true' as const) : ('false' as const),
  });

  addCall('CreateWatcher', 'Watch a folder', watchSchema, async (ref, { path, recursive }) => {
    await requireFolder(files, ref, path);
    const { version } = await fileWatch.changes(ref, toQuery({ path, recursive }));
    const watcher: z.input<typeof watcherSchema> = [randomBytes(6).toString('base64url'), path, recursive, version];
    return { watcherId: Buffer.from(JSON.stringify(watcher)).toString('base64url') };
  });

  addCall('GetWatcherEvents', 'List the changes since the last call', idSchema, async (ref, { watcherId }) => {
    const { path, recursive, version } = readId(watcherId);
    const key = `${ref.box} ${watcherId}`;
    const after = positions.get(key) ?? version;
    if (after === removed) throw unknown();
    const found = await fileWatch.changes(ref, { ...toQuery({ path, recursive }), after });
    setPosition(key, found.version);
    if (!found.changes)
      throw new CodeBoxError('unavailable', 'Changes were lost: list the folder, and go on with this watcher.');
    return { events: found.changes.flatMap((change) => toEvents(change, path)).map(({ filesystem }) => filesystem) };
  });

  addCall('RemoveWatcher', 'End a watcher', idSchema, async (ref, { watcherId }) => {
    readId(watcherId);
    setPosition(`${ref.box} ${watcherId}`, removed);
    return {};
  });
};
