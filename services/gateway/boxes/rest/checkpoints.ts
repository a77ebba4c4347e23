import { pipeline, Readable, Transform } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BlobStore } from '../../../blobs/blob-store.ts';
import { createPatience, type Patience, silentError } from '../../../blobs/patience.ts';
import type { Background } from '../../../waiting/background.ts';
import { createGate } from '../../../waiting/gate.ts';
import type { BoxServerClient } from '../../box-server/client.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { TaskStore } from '../../store/box/tasks.ts';

export interface CheckpointsOptions {
  blobs: BlobStore;
  tasks: Pick<TaskStore, 'strayBlobs' | 'forgetBlob' | 'knownBlobs'>;
  background: Background;
}

const MiB = 1024 * 1024;
/** What names, modes and blocks may take beside the bytes of files, in a stream that is compressed. */
const overheadBytes = 64 * MiB;
/** How long the blob store may be silent: before it answers at all, and between two bytes that it takes or gives. */
const answerMs = 10_000;
const silenceMs = 60_000;
const deleteMs = 30_000;
const listMs = 60_000;
const batch = 16;
/** Of the records that one sweep looks at, so that no number of them makes it slow. */
const pageSize = 500;
/** Streams to the blob store at once; further ones wait. */
const packsAtOnce = 4;
/** A row is written before its blob, so one without is old news; this is for clocks that differ. */
const graceMs = 3_600_000;

/** Files of boxes on their way to the blob store and back. They are streams of the box, which no gateway looks into. */
export const createCheckpoints = ({ blobs, tasks, background }: CheckpointsOptions) => {
  const gate = createGate(packsAtOnce);
  let sweptUpTo = '';
  const nameOf = (boxId: string, blobId: string) => `${boxId}/${blobId}`;

  const remove = async ({ id, boxId }: { id: string; boxId: string }): Promise<void> => {
    await blobs.delete(nameOf(boxId, id), AbortSignal.timeout(deleteMs));
    await tasks.forgetBlob(id);
  };

  /** Deletes what no box has any more of the next page of blobs; what does not go is tried again in the next round. */
  const sweep = async (): Promise<void> => {
    const { stray, next } = await tasks.strayBlobs(sweptUpTo, pageSize);
    sweptUpTo = next;
    for (let at = 0; at < stray.length; at += batch) {
      const some = stray.slice(at, at + batch);
      await Promise.all(some.map((blob) => background.attempt('delete a blob', () => remove(blob))));
    }
  };

  /** Whether the blob store has the files; `unavailable` when it does not answer. */
  const has = async (boxId: string, blobId: string, signal: AbortSignal): Promise<boolean> => {
    const late = AbortSignal.timeout(answerMs);
    return await blobs.has(nameOf(boxId, blobId), AbortSignal.any([signal, late])).catch((error: unknown) => {
      throw late.aborted ? silentError(error) : error;
    });
  };

  return {
    sweep,

    /** Throws `unavailable` when files could not be kept now: when the blob store does not answer. */
    async checkReach(box: BoxRow, signal: AbortSignal): Promise<void> {
      await has(box.id, box.checkpointId ?? 'none', signal);
    },

    /** Throws `unavailable` when the blob store does not answer, `not_found` when it does not have the files of the box. */
    async checkKept(box: BoxRow, signal: AbortSignal): Promise<void> {
      if (box.checkpointId !== null && (await has(box.id, box.checkpointId, signal))) return;
      throw new CodeBoxError('not_found', 'There are no files of the box.');
    },

    /**
     * Puts the files of a box into a blob; its bytes. Throws `too_large` for more than the disk of the box can hold, `unavailable`
     * when the blob store takes nothing for a minute.
     */
    put: (box: BoxRow, blobId: string, server: BoxServerClient, signal: AbortSignal): Promise<number> =>
      gate(signal, async () => {
        const { body } = await server.checkpoint(signal);
        const meter = createMeter(box.limits.diskMb * MiB + overheadBytes);
        // Whichever breaks takes the other along; what it was shows where the blob is written.
        pipeline(body, meter.stream, () => {});
        const patience = createPatience(silenceMs);
        try {
          const content = Readable.from(given(meter.stream, patience), { objectMode: false });
          await blobs.put(nameOf(box.id, blobId), content, AbortSignal.any([signal, patience.signal]));
        } finally {
          patience.rest();
          body.destroy();
        }
        return meter.bytes();
      }),

    /** Deletes a blob that came too late to be anybody's. */
    async discard(boxId: string, id: string): Promise<void> {
      await background.attempt('delete a blob', () => remove({ id, boxId }));
    },

    /**
     * Puts the files of a blob into what now embodies a box, in place of what is there. Throws `unavailable` when the blob store
     * gives nothing for a minute.
     */
    async restore(box: BoxRow, server: BoxServerClient, signal: AbortSignal): Promise<void> {
      if (box.checkpointId === null) throw new Error('a box without files is to be restored');
      const patience = createPatience(silenceMs);
      patience.wait();
      const both = AbortSignal.any([signal, patience.signal]);
      let content: Readable | undefined;
      try {
        content = await blobs.get(nameOf(box.id, box.checkpointId), both);
        await server.restore(Readable.from(taken(content, patience), { objectMode: false }), both);
      } catch (error) {
        // What broke off the box's side is told by it as its own failure.
        throw patience.signal.aborted ? patience.signal.reason : error;
      } finally {
        patience.rest();
        content?.destroy();
      }
    },

    /** Deletes blobs that are on no record, which a gateway that was gone for long may have left. */
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

/** Content for the blob store, which is waited for whenever it has a piece, and after the last one. */
async function* given(content: AsyncIterable<Buffer>, patience: Patience): AsyncGenerator<Buffer> {
  for await (const chunk of content) {
    patience.wait();
    yield chunk;
    patience.rest();
  }
  patience.wait();
}

/** Content of the blob store, which is waited for until it has given the next piece. */
async function* taken(content: AsyncIterable<Buffer>, patience: Patience): AsyncGenerator<Buffer> {
  for await (const chunk of content) {
    patience.rest();
    yield chunk;
    patience.wait();
  }
  patience.rest();
}

const idOf = (name: string): string => name.slice(name.lastIndexOf('/') + 1);

/** Passes bytes on and counts them; more than `most` is an error. */
const createMeter = (most: number) => {
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= most) done(null, chunk);
      else done(new CodeBoxError('too_large', 'The box sent more than its disk can hold.'));
    },
  });
  return { stream, bytes: () => bytes };
};
