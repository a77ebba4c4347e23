import { pipeline, Readable, Transform } from 'node:stream';
import { CodeBoxError, hasCode } from '#contract';
import type { BlobStore } from '../../../blobs/blob-store.ts';
import { createBlobPatience, patiently, silentError } from '../../../blobs/patience.ts';
import type { Background } from '../../../waiting/background.ts';
import { createGate } from '../../../waiting/gate.ts';
import type { Patience } from '../../../waiting/patience.ts';
import type { BoxServerClient } from '../../box-server/client.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { TaskStore } from '../../store/box/tasks.ts';

export interface CheckpointsOptions {
  blobs: BlobStore;
  tasks: Pick<TaskStore, 'strayBlobs' | 'forgetBlob' | 'knownBlobs'>;
  background: Background;
}

/** Where the files of a box are saved. */
type SavedFiles = Pick<BoxRow, 'id' | 'checkpointId'>;

const MiB = 1024 * 1024;
/** Allowance for names, modes and padding in a compressed stream, in addition to the bytes of files. */
const overheadBytes = 64 * MiB;
/** How long the blob store may be silent: before its response, and between two chunks that it takes or sends. */
const responseMs = 10_000;
const silenceMs = 60_000;
const deleteMs = 30_000;
const listMs = 60_000;
const batch = 16;
/** The number of records that one sweep reads. */
const pageSize = 500;
/** Uploads at once; further ones wait. */
const uploadsAtOnce = 4;
/** A row is written before its blob, so a blob without one is garbage. This allows for clocks that differ. */
const graceMs = 3_600_000;

/** Moves the files of boxes to the blob store and back. Their streams come from the box, and no gateway reads their contents. */
export const createCheckpoints = ({ blobs, tasks, background }: CheckpointsOptions) => {
  const gate = createGate(uploadsAtOnce);
  let sweptUpTo = '';
  const nameOf = (boxId: string, blobId: string) => `${boxId}/${blobId}`;

  const remove = async ({ id, boxId }: { id: string; boxId: string }): Promise<void> => {
    await blobs.delete(nameOf(boxId, id), AbortSignal.timeout(deleteMs));
    await tasks.forgetBlob(id);
  };

  /** Deletes the blobs of the next page of records that no box needs any more. Failed deletions are retried in the next round. */
  const sweep = async (): Promise<void> => {
    const { stray, next } = await tasks.strayBlobs(sweptUpTo, pageSize);
    sweptUpTo = next;
    for (let at = 0; at < stray.length; at += batch) {
      const some = stray.slice(at, at + batch);
      await Promise.all(some.map((blob) => background.attempt('delete a blob', () => remove(blob))));
    }
  };

  /** Resolves with whether the blob store has the files. Throws `unavailable` when it does not respond. */
  const has = async (boxId: string, blobId: string, signal: AbortSignal): Promise<boolean> => {
    const late = AbortSignal.timeout(responseMs);
    return await blobs.has(nameOf(boxId, blobId), AbortSignal.any([signal, late])).catch((error: unknown) => {
      throw late.aborted ? silentError(error) : error;
    });
  };

  /**
   * Replaces the files in the new instance of a box by those of its blob. Throws `unavailable` when the blob store sends nothing for a
   * minute.
   */
  const restore = async (box: SavedFiles, server: BoxServerClient, signal: AbortSignal): Promise<void> => {
    if (box.checkpointId === null) throw new Error('The box to restore has no checkpoint.');
    const patience = createBlobPatience(silenceMs);
    patience.wait();
    const both = AbortSignal.any([signal, patience.signal]);
    let content: Readable | undefined;
    try {
      content = await blobs.get(nameOf(box.id, box.checkpointId), both);
      await server.restore(Readable.from(patiently(content, patience), { objectMode: false }), both);
    } catch (error) {
      // The box reports a broken upload as its own error; the reason of the blob store is the real one.
      throw patience.signal.aborted ? patience.signal.reason : error;
    } finally {
      patience.rest();
      content?.destroy();
    }
  };

  return {
    sweep,

    /** Throws `unavailable` when the blob store does not respond, so that files could not be saved now. */
    async checkReachable(box: BoxRow, signal: AbortSignal): Promise<void> {
      await has(box.id, box.checkpointId ?? 'none', signal);
    },

    /** Throws `unavailable` when the blob store does not respond, `not_found` when it does not have the files of the box. */
    async checkSaved(box: BoxRow, signal: AbortSignal): Promise<void> {
      if (box.checkpointId !== null && (await has(box.id, box.checkpointId, signal))) return;
      throw new CodeBoxError('not_found', 'The stored files of the box are missing.');
    },

    /**
     * Saves the files of a box as a blob; resolves with its size in bytes. Throws `too_large` for more than the disk of the box can
     * hold, `unavailable` when the blob store takes no data for a minute.
     */
    save: (box: BoxRow, blobId: string, server: BoxServerClient, signal: AbortSignal): Promise<number> =>
      gate(signal, async () => {
        const { body } = await server.checkpoint(signal);
        const counter = createByteCounter(box.limits.diskMb * MiB + overheadBytes);
        // Either stream destroys the other when it fails; the error surfaces where the blob is written.
        pipeline(body, counter.stream, () => {});
        const patience = createBlobPatience(silenceMs);
        try {
          const content = Readable.from(outgoing(counter.stream, patience), { objectMode: false });
          await blobs.put(nameOf(box.id, blobId), content, AbortSignal.any([signal, patience.signal]));
        } finally {
          patience.rest();
          body.destroy();
        }
        return counter.bytes();
      }),

    /** Deletes a blob whose task was canceled before it was recorded. */
    async discard(boxId: string, id: string): Promise<void> {
      await background.attempt('delete a blob', () => remove({ id, boxId }));
    },

    restore,

    /**
     * Gives a new box the files of a template or of another box. Throws `unavailable` when newer ones have replaced them since they were
     * chosen: another attempt gets those.
     */
    async give(from: SavedFiles, server: BoxServerClient, signal: AbortSignal): Promise<void> {
      try {
        await restore(from, server, signal);
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
        const detail = 'The files of the new box were replaced by newer ones before it had them. Try again.';
        throw new CodeBoxError('unavailable', detail, { cause: error, retryAfterSeconds: 1 });
      }
    },

    /** Deletes blobs without a record, which a gateway may have left that was offline for long. */
    async sweepUnknown(): Promise<void> {
      for (let cursor: string | undefined; ; ) {
        const { items, next } = await blobs.list(cursor, AbortSignal.timeout(listMs));
        const old = items.filter(({ changedAt }) => Date.now() - changedAt.getTime() > graceMs);
        const known = await tasks.knownBlobs(old.map(({ name }) => idOf(name)));
        for (const { name } of old) {
          if (known.has(idOf(name))) continue;
          await background.attempt('delete a blob', () => blobs.delete(name, AbortSignal.timeout(deleteMs)));
        }
        if (next === undefined) return;
        cursor = next;
      }
    },
  };
};

export type Checkpoints = ReturnType<typeof createCheckpoints>;

/** Passes content on to the blob store. Patience runs while the store processes a chunk, and after the last one. */
async function* outgoing(content: AsyncIterable<Buffer>, patience: Patience): AsyncGenerator<Buffer> {
  for await (const chunk of content) {
    patience.wait();
    yield chunk;
    patience.rest();
  }
  patience.wait();
}

const idOf = (name: string): string => name.slice(name.lastIndexOf('/') + 1);

/** Passes bytes on and counts them. Fails beyond `maxBytes`. */
const createByteCounter = (maxBytes: number) => {
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= maxBytes) done(null, chunk);
      else done(new CodeBoxError('too_large', 'The box sent more than its disk can hold.'));
    },
  });
  return { stream, bytes: () => bytes };
};
