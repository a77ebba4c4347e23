import { boxPathSchema, CodeBoxError, decodePath, type FileEntry, maxFolderDepth, urlPathSchema } from '#contract';
import { orAborted } from '../../../waiting/or-aborted.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Files, Folder } from '../reach/files.ts';
import { ExportFailed } from './export-failed.ts';

/** A file to export: `path` is for the box, and `shown` for readers and keys, where a name that is not UTF-8 is percent-encoded. */
export interface Selected {
  path: string;
  shown: string;
}

const maxFiles = 1000;
/** The length of the paths of all files. */
const maxPathsLength = 1024 * 1024;
const pageSize = 500;
/** What all listings of an export may have: a box can list without end. */
const maxPages = 1000;
const maxEntries = 100_000;
const maxCursorLength = 8192;
const visible = /^[\x21-\x7e]+$/;

/** Names the file or folder in the refusal of a box. */
export const asReadFailure = (error: unknown, path: string): unknown => {
  if (!(error instanceof CodeBoxError) || error.code === 'internal') return error;
  const code = error.code === 'not_found' ? 'not_found' : 'box_unavailable';
  return new ExportFailed(code, error.message, path);
};

/**
 * Finds the files that some paths name: files, and all files below folders, each once. Symbolic links in folders are not followed: they
 * and other entries that are no files are counted as `skipped`. Throws `ExportFailed`, also for a listing that no honest box sends.
 */
export const select = async (
  files: Pick<Files, 'stat' | 'list'>,
  ref: BoxRef,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<{ selected: Selected[]; skipped: number }> => {
  const selected = new Map<string, Selected>();
  let length = 0;
  let skipped = 0;
  let pages = 0;
  let entries = 0;

  const add = (path: string, shown = path): void => {
    if (selected.has(path)) return;
    selected.set(path, { path, shown });
    length += shown.length;
    if (selected.size > maxFiles) throw tooMany(`An export has at most ${maxFiles} files`);
    if (length > maxPathsLength) throw tooMany('The paths of the files have more than 1 MiB');
  };

  const listPage = async (folder: string, cursor: string | undefined): Promise<Folder> => {
    const page = await orAborted(files.list(ref, folder, { depth: maxFolderDepth, limit: pageSize, cursor }), signal);
    if (page.items.length > pageSize || (page.nextCursor?.length ?? 0) > maxCursorLength) throw badListing(folder);
    pages += 1;
    entries += page.items.length;
    if (pages > maxPages || entries > maxEntries)
      throw tooMany(`The folders have more than ${maxEntries} entries, or more than ${maxPages} pages of them`);
    return page;
  };

  const addFolder = async (folder: string): Promise<void> => {
    const depthOf = (path: string) => path.split('/').length - (folder === '' ? 0 : folder.split('/').length);
    for (let cursor: string | undefined, isLast = false; !isLast; ) {
      const page = await listPage(folder, cursor);
      for (const entry of page.items) {
        const path = pathOf(entry);
        if (path === undefined || !(folder === '' || path.startsWith(`${folder}/`))) throw badListing(folder);
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
      const { kind } = await orAborted(files.stat(ref, path), signal);
      if (kind === 'folder') await addFolder(path);
      else add(path);
    } catch (error) {
      throw asReadFailure(error, path);
    }
  return { selected: [...selected.values()], skipped };
};

/** The path of an entry; undefined for one that no file of a box can have. */
const pathOf = ({ path, encodedPath }: FileEntry): string | undefined => {
  if (encodedPath === undefined) return boxPathSchema.safeParse(path).data;
  if (!visible.test(encodedPath)) return undefined;
  try {
    return urlPathSchema.safeParse(decodePath(encodedPath)).data;
  } catch {
    return undefined;
  }
};

const tooMany = (what: string) =>
  new ExportFailed('too_many_files', `${what}: archive some, or export folders one by one.`);

const badListing = (folder: string) =>
  new ExportFailed('box_unavailable', 'The box listed what no folder can have.', folder.toWellFormed());
