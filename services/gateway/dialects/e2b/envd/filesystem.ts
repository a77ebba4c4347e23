import { z } from 'zod';
import { CodeBoxError, type FileEntry, hasCode, maxFolderDepth } from '#contract';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { toBoxPath, toSandboxPath } from '../paths.ts';
import type { Running } from '../running.ts';
import { createUnaryCalls } from './unary.ts';

const pathSchema = z.string().max(4096).default('').transform(toBoxPath);
/** How many entries a listing returns, which has no pages. */
const maxEntries = 10_000;
const pageSize = 1000;

const types: Record<FileEntry['type'], string> = {
  file: 'FILE_TYPE_FILE',
  directory: 'FILE_TYPE_DIRECTORY',
  symlink: 'FILE_TYPE_SYMLINK',
  other: 'FILE_TYPE_UNSPECIFIED',
};

/** The one user of a box, by the name that it has at E2B. */
const owner = 'user';

const marks: Record<FileEntry['type'], string> = { file: '-', directory: 'd', symlink: 'L', other: '?' };

/** Returns a mode in the form of E2B's daemon, such as `-rw-r--r--`. */
const toPermissions = (type: FileEntry['type'], mode: number): string =>
  marks[type] + [...'rwxrwxrwx'].map((mark, at) => (mode & (0o400 >> at) ? mark : '-')).join('');

const toEntry = ({ path, type, sizeBytes, modifiedAt, mode, target, metadata }: FileEntry) => ({
  name: toSandboxPath(path).split('/').at(-1),
  type: types[type],
  path: toSandboxPath(path),
  size: String(sizeBytes),
  ...(mode !== undefined && { mode: mode & 0o777, permissions: toPermissions(type, mode) }),
  owner,
  group: owner,
  modifiedTime: modifiedAt,
  ...(target !== undefined && { symlinkTarget: toSandboxPath(target) }),
  ...(metadata && { metadata }),
});

/** The calls on files of E2B's daemon. */
export const addFilesystemRoutes = (
  endpoints: Endpoints,
  { files }: Pick<RouteParts, 'files'>,
  running: Running,
): void => {
  const addCall = createUnaryCalls(endpoints, running, {
    name: 'filesystem.Filesystem',
    scope: 'files',
    tag: 'Filesystem',
  });
  const never = () => AbortSignal.any([]);

  addCall('Stat', 'Read the type and size of a file', z.object({ path: pathSchema }), async (ref, { path }) => {
    const { entry } = await files.operate(ref, { op: 'stat', path }, never());
    return { entry: toEntry(entry) };
  });

  addCall(
    'ListDir',
    'List a folder',
    z.object({ path: pathSchema, depth: z.int().min(0).default(1) }),
    async (ref, { path, depth }) => {
      const entries: FileEntry[] = [];
      let cursor: string | undefined;
      do {
        const options = { depth: Math.min(Math.max(depth, 1), maxFolderDepth), limit: pageSize, cursor };
        const page = await files.list(ref, path, options);
        entries.push(...page.items);
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined && entries.length < maxEntries);
      if (cursor !== undefined) throw new CodeBoxError('too_large', `The folder has over ${maxEntries} entries.`);
      return { entries: entries.map(toEntry) };
    },
  );

  addCall('MakeDir', 'Create a folder', z.object({ path: pathSchema }), async (ref, { path }) => {
    if (path === '') throw new CodeBoxError('conflict', 'The folder exists.');
    const { entry, isNew } = await files.operate(ref, { op: 'mkdir', path }, never());
    if (!isNew) throw new CodeBoxError('conflict', 'The folder exists.');
    return { entry: toEntry(entry) };
  });

  addCall(
    'Move',
    'Rename a file or a folder',
    z.object({ source: pathSchema, destination: pathSchema }),
    async (ref, { source: from, destination: to }) => {
      const { entry } = await files.operate(ref, { op: 'move', from, to, overwrite: true }, never());
      return { entry: toEntry(entry) };
    },
  );

  addCall('Remove', 'Remove a file or a folder', z.object({ path: pathSchema }), async (ref, { path }) => {
    if (path === '') throw new CodeBoxError('invalid_request', 'The home folder cannot be removed.');
    await files.remove(ref, path).catch((error: unknown) => {
      if (!hasCode(error, 'not_found')) throw error;
    });
    return {};
  });
};
