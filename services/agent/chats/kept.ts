import { Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BlobStore } from '../../blobs/blob-store.ts';
import { newId } from '../../postgres/id.ts';
import type { BlobRows, KeptBounds } from '../store/blobs.ts';

const keepMs = 60_000;
const mebibyte = 1024 * 1024;
const blobsPerSweep = 100;

/** What is kept of a chat beside its box: its bytes are in the blob store until the chat is removed. */
export const createKept = (blobs: BlobStore, rows: BlobRows, bounds: KeptBounds) => {
  /** Keeps the bytes; answers the name of their blob. Throws `too_large` when the chat or its owner would keep too much. */
  const keep = async (chat: string, content: Readable, sizeBytes: number): Promise<string> => {
    const name = `${chat}/${newId('file')}`;
    const isPast = await rows.add({ id: name, chatId: chat, sizeBytes }, bounds);
    if (isPast !== undefined) {
      content.destroy();
      throw new CodeBoxError(
        'too_large',
        isPast === 'chat'
          ? tooMuch('This chat keeps', bounds.chatBytes, 'it')
          : tooMuch('Your chats keep', bounds.ownerBytes, 'some'),
      );
    }
    const signal = AbortSignal.timeout(keepMs);
    await blobs.put(name, content, signal);
    if (await rows.has(name)) return name;
    // Its chat was removed meanwhile, and the sweep came before the bytes.
    await blobs.delete(name, signal);
    throw new CodeBoxError('not_found', 'The chat is gone.');
  };

  return {
    keep,
    keepBytes: (chat: string, bytes: Uint8Array): Promise<string> => keep(chat, Readable.from([bytes]), bytes.length),

    /** The bytes, to be read to the end or destroyed; `not_found` when their chat is gone. */
    open: (name: string, signal: AbortSignal): Promise<Readable> => blobs.get(name, signal),

    /** Removes what is left of chats that are gone; answers whether that was all. */
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
