import { CodeBoxError, decodePath, type FileEntry, maxFolderDepth } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { Files } from '../reach/files.ts';
import { ExportFailed } from './export-failed.ts';

/** A file to export: `path` is for the box, and `shown` for readers and keys, where a name that is not UTF-8 is percent-encoded. */
export interface Selected {
  path: string;
  shown: string;
}

const maxFiles = 1000;
const pageSize = 500;

/** Names the file or folder in the refusal of a box. */
export const asReadFailure = (error: unknown, path: string): unknown => {
  if (!(error instanceof CodeBoxError) || error.code === 'internal') return error;
  const code = error.code === 'not_found' ? 'not_found' : 'box_unavailable';
  return new ExportFailed(code, error.message, path);
};

/**
 * Finds the files that some paths name: files, and all files below folders, each once. Symbolic links in folders are not followed: they
 * and other entries that are no files are counted as `skipped`. Throws `ExportFailed`.
 */
export const select = async (
  files: Pick<Files, 'stat' | 'list'>,
  ref: BoxRef,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<{ selected: Selected[]; skipped: number }> => {
  const selected = new Map<string, Selected>();
  let skipped = 0;

  const add = (path: string, shown = path): void => {
    selected.set(path, { path, shown });
    if (selected.size > maxFiles)
      throw new ExportFailed(
        'too_many_files',
        `An export has at most ${maxFiles} files: archive some, or export folders one by one.`,
      );
  };

  const addFolder = async (folder: string): Promise<void> => {
    const depthOf = (path: string) => path.split('/').length - (folder === '' ? 0 : folder.split('/').length);
    for (let cursor: string | undefined, isLast = false; !isLast; ) {
      signal.throwIfAborted();
      const page = await files.list(ref, folder, { depth: maxFolderDepth, limit: pageSize, cursor });
      for (const entry of page.items) {
        const path = pathOf(entry);
        if (entry.type === 'file') add(path, entry.encodedPath ?? entry.path);
        else if (entry.type !== 'directory') skipped += 1;
        // The listing goes no deeper.
        else if (depthOf(path) >= maxFolderDepth) await addFolder(path);
      }
      cursor = page.nextCursor ?? undefined;
      isLast = cursor === undefined;
    }
  };

  for (const path of paths)
    try {
      const { kind } = await files.stat(ref, path);
      if (kind === 'folder') await addFolder(path);
      else add(path);
    } catch (error) {
      throw asReadFailure(error, path);
    }
  return { selected: [...selected.values()], skipped };
};

const pathOf = ({ path, encodedPath }: FileEntry): string =>
  encodedPath === undefined ? path : decodePath(encodedPath);
