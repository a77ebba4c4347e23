import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CodeBoxError } from '#contract';
import type { BlobEntry, BlobStore } from './blob-store.ts';

const partial = '.part';

/** Blobs as files below a folder. Gateways that share boxes have to share it. */
export const createFolderBlobs = (folder: string): BlobStore => {
  const pathOf = (name: string) => `${folder}/${name}`;

  return {
    kind: 'folder',

    async put(name, content, signal) {
      const path = pathOf(name);
      const temporary = `${path}.${randomBytes(6).toString('hex')}${partial}`;
      try {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        // Flushed before it has its name: what is there after a crash is whole.
        await pipeline(content, createWriteStream(temporary, { flags: 'wx', mode: 0o600, flush: true }), { signal });
        await rename(temporary, path);
      } catch (error) {
        content.destroy();
        await rm(temporary, { force: true });
        throw translate(error);
      }
    },

    async get(name, signal): Promise<Readable> {
      try {
        const file = await open(pathOf(name));
        return createReadStream('', { fd: file, signal });
      } catch (cause) {
        if (isMissing(cause)) throw new CodeBoxError('not_found', 'There is no such blob.', { cause });
        throw translate(cause);
      }
    },

    async delete(name) {
      await rm(pathOf(name), { force: true }).catch((error: unknown) => Promise.reject(translate(error)));
      // The folder of a box goes with its last blob.
      await rmdir(dirname(pathOf(name))).catch(() => {});
    },

    /** Page by page: one page per folder of a box. */
    async list(cursor = '') {
      const folders = (await readdir(folder, { withFileTypes: true }).catch(() => []))
        .flatMap((entry) => (entry.isDirectory() && entry.name > cursor ? [entry.name] : []))
        .sort();
      const items: BlobEntry[] = [];
      const page = folders.slice(0, foldersPerPage);
      for (const box of page) {
        for (const file of await readdir(pathOf(box)).catch(() => [])) {
          const found = await stat(pathOf(`${box}/${file}`)).catch(() => undefined);
          if (found) items.push({ name: `${box}/${file}`, changedAt: found.mtime });
        }
      }
      const last = page.at(-1);
      return { items, ...(last !== undefined && folders.length > page.length && { next: last }) };
    },
  };
};

const foldersPerPage = 200;

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

/** What comes from the content keeps its code; the rest is this store's fault. */
const translate = (cause: unknown): unknown =>
  cause instanceof CodeBoxError
    ? cause
    : new CodeBoxError('unavailable', 'The store of blobs does not work.', { cause, retryAfterSeconds: 5 });
