import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CodeBoxError } from '#contract';
import { isMissing } from '../missing-file.ts';
import { createGate } from '../waiting/gate.ts';
import { orAborted } from '../waiting/or-aborted.ts';
import type { BlobEntry, BlobStore } from './blob-store.ts';
import { translateFault } from './fault.ts';

const foldersPerPage = 200;
const unfinished = '.part';

/** Blobs as files below a folder. Gateways that share boxes have to share it. */
export const createFolderBlobs = (folder: string): BlobStore => {
  const pathOf = (name: string) => `${folder}/${name}`;
  const gate = createGate(1);

  /**
   * A folder on another host may not respond. Such a call cannot be aborted and occupies one of few threads, so only
   * one runs at a time, and callers give up when their deadline passes.
   */
  const inTurn = <T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> =>
    translateFault(() => orAborted(gate(signal, call), signal));

  const write = async (path: string, content: Readable, signal: AbortSignal): Promise<void> => {
    const temporary = path + unfinished;
    try {
      const made = await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      // Flushed before the rename: a file that exists after a crash is complete.
      await pipeline(content, createWriteStream(temporary, { flags: 'wx', mode: 0o600, flush: true }), { signal });
      await rename(temporary, path);
      // The names of the file and of new folders are flushed too: after this returns, the box itself may be deleted.
      await flushFolder(dirname(path));
      for (let at = dirname(path); made !== undefined && at.length >= made.length; at = dirname(at))
        await flushFolder(dirname(at));
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw error;
    } finally {
      content.destroy();
    }
  };

  return {
    kind: 'folder',
    put: (name, content, signal) => translateFault(() => write(pathOf(name), content, signal)),

    get: (name, signal) =>
      inTurn(signal, async () => {
        const file = await open(pathOf(name)).catch((cause: unknown) => {
          if (!isMissing(cause)) throw cause;
          throw new CodeBoxError('not_found', 'There is no such blob.', { cause });
        });
        if (!signal.aborted) return createReadStream('', { fd: file, signal });
        // No caller waits for the result any more.
        await file.close();
        throw signal.reason;
      }),

    has: (name, signal) =>
      inTurn(signal, () =>
        stat(pathOf(name)).then(
          () => true,
          (error: unknown) => (isMissing(error) ? false : Promise.reject(error)),
        ),
      ),

    delete: (name, signal) =>
      inTurn(signal, async () => {
        await rm(pathOf(name), { force: true });
        await rm(pathOf(name) + unfinished, { force: true });
        // The folder of a box is removed with its last blob.
        await rmdir(dirname(pathOf(name))).catch(() => {});
      }),

    /** A page is some folders of boxes with all their blobs, which are never many. */
    list: (cursor = '', signal) =>
      inTurn(signal, async () => {
        const entries = await readdir(folder, { withFileTypes: true }).catch(noneIfMissing);
        const boxes = entries
          .flatMap((entry) => (entry.isDirectory() && entry.name > cursor ? [entry.name] : []))
          .sort();
        const page = boxes.slice(0, foldersPerPage);
        const items: BlobEntry[] = [];
        for (const box of page) {
          for (const { name } of await readdir(pathOf(box), { withFileTypes: true }).catch(noneIfMissing)) {
            const found = await stat(pathOf(`${box}/${name}`)).catch(() => undefined);
            if (found) items.push({ name: `${box}/${name}`, changedAt: found.mtime });
          }
        }
        const last = page.at(-1);
        return { items, ...(last !== undefined && boxes.length > page.length && { next: last }) };
      }),
  };
};

/** fsync of a folder: new names in it survive a crash. */
const flushFolder = async (path: string): Promise<void> => {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

const noneIfMissing = (error: unknown): [] => {
  if (isMissing(error)) return [];
  throw error;
};
