import { type ChangedFiles, CodeBoxError, type CreateRun, type Run } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { Files } from '../reach/files.ts';

type RunFile = Run['files'][number];
type Returned = NonNullable<CreateRun['returnFiles']>;

const maxFileBytes = 4 * 1024 * 1024;
const maxFiles = 256;
const maxFilesBytes = 16 * 1024 * 1024;

/** Notes which files the steps of a run leave created or modified. A file that is gone again counts as neither. */
export const createChanges = () => {
  const changes = new Map<string, RunFile['change']>();
  return {
    add({ created, modified, deleted }: ChangedFiles): void {
      for (const path of deleted) changes.delete(path);
      for (const path of created) changes.set(path, 'created');
      // A file that an earlier step has created is still a new one.
      for (const path of modified) if (!changes.has(path)) changes.set(path, 'modified');
    },
    list: (): { path: string; change: RunFile['change'] }[] =>
      [...changes].slice(0, maxFiles).map(([path, change]) => ({ path, change })),
  };
};

export type Changes = ReturnType<typeof createChanges>;

/** Yields the changed files, read one at a time: at most 256, of 4 MiB each and 16 MiB in total; larger ones without content. */
export async function* readChanged(
  files: Pick<Files, 'open'>,
  ref: BoxRef,
  changes: Changes,
  returned: Returned,
): AsyncGenerator<RunFile> {
  if (returned === 'none') return;
  let budget = returned === 'names' ? 0 : maxFilesBytes;
  for (const { path, change } of changes.list()) {
    const file = await readFile(files, ref, path, Math.min(budget, maxFileBytes)).catch(ignoreUnreadable);
    if (!file) continue;
    budget -= file.bytes?.length ?? 0;
    const base64 = returned === 'names' ? null : (file.bytes?.toString('base64') ?? null);
    yield { path, change, sizeBytes: file.sizeBytes, base64 };
  }
}

const readFile = async (files: Pick<Files, 'open'>, ref: BoxRef, path: string, maxBytes: number) => {
  const opened = await files.open(ref, path);
  if (opened.kind === 'folder') return undefined;
  const { body, lengthBytes = 0 } = opened;
  if (lengthBytes > maxBytes) {
    body.destroy();
    return { sizeBytes: lengthBytes, bytes: null };
  }
  // The box may send no length, or a wrong one, so bytes are counted. Beyond the bound, the file is at least this long.
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes) return { sizeBytes, bytes: null };
      chunks.push(chunk);
    }
  } catch (cause) {
    throw new CodeBoxError('unavailable', 'The box closed the connection.', { cause });
  }
  return { sizeBytes, bytes: Buffer.concat(chunks) };
};

/** Ignores a changed path that is a dangling link, a pipe, or gone again: the outputs are returned without it. */
const ignoreUnreadable = (error: unknown): undefined => {
  if (!(error instanceof CodeBoxError)) throw error;
};
