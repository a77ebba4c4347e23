import { Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BlobStore } from '../../../blobs/blob-store.ts';
import { newId } from '../../../postgres/id.ts';
import type { BlobRows, KeptBounds } from '../../store/blobs.ts';

const keepMs = 60_000;
const deleteMs = 10_000;
const mebibyte = 1024 * 1024;
const blobsPerSweep = 100;

/**
 * Copies of a chat's files and pictures that do not depend on its box: the blob store keeps their bytes until the chat
 * is removed.
 */
export const createKept = (blobs: BlobStore, rows: BlobRows, bounds: KeptBounds) => {
  /**
   * Stores the bytes and resolves with the name of their blob. Throws `too_large` when the chat or its owner would
   * exceed a limit.
   */
  const keep = async (chat: string, content: Readable, sizeBytes: number): Promise<string> => {
    const name = `${chat}/${newId('file')}`;
    try {
      const isPast = await rows.add({ id: name, chatId: chat, sizeBytes }, bounds);
      if (isPast !== undefined)
        throw new CodeBoxError(
          'too_large',
          isPast === 'chat'
            ? tooMuch('This chat keeps', bounds.chatBytes, 'it')
            : tooMuch('Your chats keep', bounds.ownerBytes, 'some'),
        );
      await put(name, content);
    } finally {
      content.destroy();
    }
    if (await rows.has(name)) return name;
    // The chat was removed meanwhile, and the sweep ran before the bytes arrived.
    await blobs.delete(name, AbortSignal.timeout(deleteMs));
    throw new CodeBoxError('not_found', 'The chat was removed.');
  };

  /** What could not be stored no longer counts. */
  const put = async (name: string, content: Readable): Promise<void> => {
    try {
      await blobs.put(name, content, AbortSignal.timeout(keepMs));
    } catch (error) {
      // Its row stays until nothing of it can be left: else the blob would never be deleted.
      await blobs.delete(name, AbortSignal.timeout(deleteMs)).then(
        () => rows.forget([name]),
        () => {},
      );
      throw error;
    }
  };

  return {
    keep,
    keepBytes: (chat: string, bytes: Uint8Array): Promise<string> => keep(chat, Readable.from([bytes]), bytes.length),

    /**
     * Opens the bytes, which have to be read to the end or destroyed; throws `not_found` when their chat was removed.
     */
    open: (name: string, signal: AbortSignal): Promise<Readable> => blobs.get(name, signal),

    /** Deletes the blobs of removed chats; resolves with whether none is left. */
    async sweep(signal: AbortSignal): Promise<boolean> {
      const names = await rows.abandoned(blobsPerSweep);
      for (const name of names) await blobs.delete(name, signal);
      await rows.forget(names);
      return names.length < blobsPerSweep;
    },
  };
};

const tooMuch = (who: string, bytes: number, what: string): string =>
  `${who} at most ${Math.round(bytes / mebibyte)} MiB of pictures and copies of files: remove ${what} to make room.`;

export type Kept = ReturnType<typeof createKept>;
