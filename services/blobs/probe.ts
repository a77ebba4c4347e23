import { setTimeout as sleep } from 'node:timers/promises';
import type { BlobStore } from './blob-store.ts';

/** The deadline of one probe, and how long a caller waits for its result. */
const responseMs = 2000;
const patienceMs = 500;

/**
 * Returns within half a second whether a blob store responds and accepts our credentials. However often this is called,
 * only one probe runs at a time; while that is late, the result is immediately false.
 */
export const createBlobProbe = (blobs: Pick<BlobStore, 'has'>): (() => Promise<boolean>) => {
  let pending: Promise<boolean> | undefined;
  let isLate = false;

  const probe = async (): Promise<boolean> => {
    try {
      await blobs.has('none/none', AbortSignal.timeout(responseMs));
      return true;
    } catch {
      return false;
    } finally {
      pending = undefined;
      isLate = false;
    }
  };

  return async () => {
    if (isLate) return false;
    pending ??= probe();
    const over = new AbortController();
    const late = sleep(patienceMs, undefined, { signal: over.signal }).then(
      () => {
        isLate = pending !== undefined;
        return false;
      },
      () => false,
    );
    try {
      return await Promise.race([pending, late]);
    } finally {
      over.abort();
    }
  };
};
