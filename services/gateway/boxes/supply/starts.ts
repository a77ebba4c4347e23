import { CodeBoxError } from '#contract';
import { createPatience, longestStartMs } from './start-patience.ts';
import type { StartSlots } from './start-slots.ts';

export interface StartsOptions {
  slots: StartSlots;
  /** What a start may take on a machine that has a processor for it. */
  startMs: number;
}

const retryAfterSeconds = 5;

/**
 * How instances are started: a bounded number at once, as each takes the whole of a processor, and each with the time that it needs
 * on a busy machine. Throws `unavailable` when its turn has not come for as long as a start may take at most.
 */
export const createStarts = ({ slots, startMs }: StartsOptions) => {
  const patience = createPatience({ startMs });
  return async <T>(start: (signal: AbortSignal) => Promise<T>, stop?: AbortSignal): Promise<T> => {
    const turn = AbortSignal.timeout(longestStartMs(startMs));
    let isMyTurn = false;
    try {
      return await slots(stop ? AbortSignal.any([turn, stop]) : turn, () => {
        isMyTurn = true;
        return patience(stop, start);
      });
    } catch (cause) {
      if (isMyTurn || !turn.aborted) throw cause;
      throw new CodeBoxError('unavailable', 'Too many boxes are being started.', { cause, retryAfterSeconds });
    }
  };
};

export type Starts = ReturnType<typeof createStarts>;

/** What is being made for longer than this is not made any more: it has waited for its turn, and then started. */
export const givenUpMs = (startMs: number): number => 2 * longestStartMs(startMs);
