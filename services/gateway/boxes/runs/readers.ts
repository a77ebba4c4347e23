import { CodeBoxError } from '#contract';
import { createTally } from '../../../waiting/tally.ts';
import type { BoxRef } from '../box-ref.ts';

/**
 * Counts who reads the events of runs at this gateway. A tenant has up to `most` readers, and half of them in one box, so that a run with
 * many readers leaves room for those of other boxes.
 */
export const createReaders = (most: number) => {
  const [ofTenants, ofBoxes] = [createTally(), createTally()];
  const mostOfBox = Math.ceil(most / 2);

  /** Throws `too_many_requests` when no reader may join. */
  const expectRoom = ({ tenant, box }: BoxRef): void => {
    const full =
      ofTenants.of(tenant) >= most
        ? `${most} readers of events are connected.`
        : ofBoxes.of(box) >= mostOfBox
          ? `${mostOfBox} readers of the events of this box are connected.`
          : undefined;
    if (full !== undefined) throw new CodeBoxError('too_many_requests', full, { retryAfterSeconds: 5 });
  };

  return {
    expectRoom,

    /** Counts a reader until the returned function is called, once. Throws as `expectRoom` does. */
    join(ref: BoxRef): () => void {
      expectRoom(ref);
      const leaves = [ofTenants.add(ref.tenant), ofBoxes.add(ref.box)];
      return () => {
        for (const leave of leaves) leave();
      };
    },
  };
};

export type Readers = ReturnType<typeof createReaders>;
