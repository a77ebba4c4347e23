import { setTimeout as sleep } from 'node:timers/promises';
import type { BlobStore } from './blob-store.ts';

/** What the store may take to answer before it is asked anew, and what whoever wants to know waits for it. */
const answerMs = 2000;
const patienceMs = 500;

/**
 * Tells within half a second whether a store of blobs answers and lets us in. However often it is asked, the store is asked once at a time; while
 * that is late, the answer is no, at once.
 */
export const createBlobProbe = (blobs: Pick<BlobStore, 'has'>): (() => Promise<boolean>) => {
  let asked: Promise<boolean> | undefined;
  let isLate = false;

  const ask = async (): Promise<boolean> => {
    try {
      await blobs.has('none/none', AbortSignal.timeout(answerMs));
      return true;
    } catch {
      return false;
    } finally {
      asked = undefined;
      isLate = false;
    }
  };

  return async () => {
    if (isLate) return false;
    asked ??= ask();
    const over = new AbortController();
    const late = sleep(patienceMs, undefined, { signal: over.signal }).then(
      () => {
        isLate = asked !== undefined;
        return false;
      },
      () => false,
    );
    try {
      return await Promise.race([asked, late]);
    } finally {
      over.abort();
    }
  };
};
