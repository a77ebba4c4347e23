import { Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BlobStore } from '../../../blobs/blob-store.ts';
import { createBlobPatience, patiently } from '../../../blobs/patience.ts';
import { boundedTo } from '../../../blobs/size-bound.ts';
import { faulty } from '../../../http/faults/fault.ts';
import { newId } from '../../../postgres/id.ts';
import type { UploadBounds, UploadQuery, UploadRow, UploadRows } from '../../store/uploads.ts';
import type { Owner } from '../owner.ts';

const mebibyte = 1024 * 1024;
const maxFileMib = 100;
const uploadSeconds = 3600;
const silenceMs = 60_000;
const deleteMs = 60_000;
const perSweep = 100;

/** What a file is called, and for how many seconds it is kept. */
export interface UploadFacts {
  name: string;
  purpose: string;
  seconds: number;
}

/** A file that a request names, and the field that does. */
export interface NamedUpload {
  id: string;
  pointer: string;
}

const blobOf = (id: string): string => `uploads/${id}`;

const noFile = () => new CodeBoxError('not_found', 'There is no such file, or it has expired.');

/** Files that an owner stores outside chats, to copy them into boxes later. They expire. */
export const createUploads = (blobs: BlobStore, rows: UploadRows, bounds: UploadBounds) => {
  const find = async (owner: Owner, id: string): Promise<UploadRow> => {
    const [row] = await rows.find(owner, [id]);
    if (!row) throw noFile();
    return row;
  };

  return {
    /** Throws `not_found`, also for a file of another owner. */
    find,

    list: (owner: Owner, query: UploadQuery): Promise<UploadRow[]> => rows.list(owner, query),

    /** Resolves with the files of these ids by id; throws `invalid_request` at the pointer of one that does not exist. */
    async named(owner: Owner, wanted: readonly NamedUpload[]): Promise<Map<string, UploadRow>> {
      if (wanted.length === 0) return new Map();
      const found = new Map(
        (
          await rows.find(
            owner,
            wanted.map(({ id }) => id),
          )
        ).map((row) => [row.id, row]),
      );
      const missing = wanted.filter(({ id }) => !found.has(id));
      if (missing.length > 0)
        throw faulty(missing.map(({ pointer }) => ({ pointer, detail: 'is not an existing file' })));
      return found;
    },

    /**
     * Stores the bytes that `receive` passes to its argument, and then the file as `receive` resolves. Throws `too_large` for a file
     * that is too large, or when its owner would have too many.
     */
    async add(
      owner: Owner,
      receive: (store: (content: Readable) => Promise<void>) => Promise<UploadFacts>,
      signal: AbortSignal,
    ): Promise<UploadRow> {
      const id = newId('file');
      await rows.begin(owner, id, uploadSeconds);
      try {
        let sizeBytes = 0;
        const facts = await receive(async (content) => {
          const bounded = boundedTo(content, maxFileMib * mebibyte, tooLarge);
          bounded.on('data', ({ length }: Buffer) => {
            sizeBytes += length;
          });
          bounded.pause();
          await blobs.put(blobOf(id), bounded, signal);
        });
        const row = await rows.finish(owner, { id, sizeBytes, ...facts }, bounds);
        if (row === undefined) throw new CodeBoxError('timeout', 'The upload took too long.');
        if (row === 'full') throw tooMany(bounds);
        return row;
      } catch (error) {
        // Otherwise its bytes would stay until the time for the upload is over, or for good if the sweep has already been there.
        if (!(await rows.expire(owner, id))) await blobs.delete(blobOf(id), AbortSignal.timeout(deleteMs));
        throw error;
      }
    },

    /** Opens the bytes of a file, which have to be read to the end or destroyed. They fail when the blob store is silent for too long. */
    async open({ id }: UploadRow, signal: AbortSignal): Promise<Readable> {
      const patience = createBlobPatience(silenceMs);
      patience.wait();
      try {
        const content = await blobs.get(blobOf(id), AbortSignal.any([signal, patience.signal]));
        // Its reader, which may not have begun, gets the error.
        content.on('error', () => {});
        const body = Readable.from(patiently(content, patience), { objectMode: false });
        return body.on('close', () => content.destroy());
      } finally {
        patience.rest();
      }
    },

    /** Throws `not_found` when there is no such file. Its bytes are deleted by the next sweep. */
    async remove(owner: Owner, id: string): Promise<void> {
      if (!(await rows.expire(owner, id))) throw noFile();
    },

    /** Deletes the bytes of some expired files; resolves with whether none is left. */
    async sweep(signal: AbortSignal): Promise<boolean> {
      const ids = await rows.expired(perSweep);
      for (const id of ids) await blobs.delete(blobOf(id), signal);
      await rows.forget(ids);
      return ids.length < perSweep;
    },
  };
};

const tooLarge = () => new CodeBoxError('too_large', `A file may have up to ${maxFileMib} MiB.`);

const tooMany = ({ files, bytes }: UploadBounds) =>
  new CodeBoxError(
    'too_large',
    `You can store at most ${files} files with ${Math.round(bytes / mebibyte)} MiB: delete some to make room.`,
  );

export type Uploads = ReturnType<typeof createUploads>;
