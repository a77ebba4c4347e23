import { pipeline, Transform } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BlobStore } from '../blobs/blob-store.ts';
import type { BoxServerClient } from '../box-server/client.ts';
import { createGate } from '../drivers/gate.ts';
import type { BoxRow } from '../store/boxes.ts';
import type { TaskStore } from '../store/tasks.ts';
import type { Background } from './background.ts';

export interface CheckpointsOptions {
  blobs: BlobStore;
  tasks: Pick<TaskStore, 'strayBlobs' | 'forgetBlob' | 'knownBlobs'>;
  background: Background;
}

const MiB = 1024 * 1024;
/** What names, modes and blocks may take beside the bytes of files, in a stream that is compressed. */
const overheadBytes = 64 * MiB;
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

  return {
    sweep,

    /** Puts the files of a box into a blob; its bytes. Throws `too_large` for more than the disk of the box can hold. */
    put: (box: BoxRow, blobId: string, server: BoxServerClient, signal: AbortSignal): Promise<number> =>
      gate(signal, async () => {
        const { body } = await server.checkpoint(signal);
        const meter = createMeter(box.limits.diskMb * MiB + overheadBytes);
        // Whichever breaks takes the other along; what it was shows where the blob is written.
        pipeline(body, meter.stream, () => {});
        try {
          await blobs.put(nameOf(box.id, blobId), meter.stream, signal);
        } finally {
          body.destroy();
        }
        return meter.bytes();
      }),

    /** Deletes a blob that came too late to be anybody's. */
    async discard(boxId: string, id: string): Promise<void> {
      await background.attempt('delete a blob', () => remove({ id, boxId }));
    },

    /** Puts the files of a blob into what now embodies a box, in place of what is there. */
    async restore(box: BoxRow, server: BoxServerClient, signal: AbortSignal): Promise<void> {
      if (box.checkpointId === null) throw new Error('a box without files is to be restored');
      const content = await blobs.get(nameOf(box.id, box.checkpointId), signal);
      try {
        await server.restore(content, signal);
      } finally {
        content.destroy();
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
