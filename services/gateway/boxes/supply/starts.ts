import { CodeBoxError } from '#contract';
import { createPatience, type Hold, longestStartMs } from './start-patience.ts';
import type { StartSlots } from './start-slots.ts';

export interface StartsOptions {
  slots: StartSlots;
  /** How long a start may take on a machine that is not busy. */
  startMs: number;
}

const retryAfterSeconds = 5;

/**
 * Starts instances: a bounded number at once, because each start keeps a processor busy, and each with a deadline that allows for a
 * busy machine. A start that is held is no longer counted, and has its slot no more. Throws `unavailable` when no slot became free for as long as a start may take at most.
 */
export const createStarts = ({ slots, startMs }: StartsOptions) => {
  const patience = createPatience({ startMs });
  return async <T>(start: (signal: AbortSignal, hold: Hold) => Promise<T>, stop?: AbortSignal): Promise<T> => {
    const turn = AbortSignal.timeout(longestStartMs(startMs));
    let isMyTurn = false;
    try {
      return await slots(stop ? AbortSignal.any([turn, stop]) : turn, (leave) => {
        isMyTurn = true;
        // A start that waits for a host keeps no processor busy, and may wait for minutes.
        return patience(stop, (signal, hold) =>
          start(signal, (isHeld) => {
            if (isHeld) leave();
            hold(isHeld);
          }),
        );
      });
    } catch (cause) {
      if (isMyTurn || !turn.aborted) throw cause;
      throw new CodeBoxError('unavailable', 'Too many boxes are being started.', { cause, retryAfterSeconds });
    }
  };
};

export type Starts = ReturnType<typeof createStarts>;

/** The longest that an instance may take to become ready: a wait for a slot, then a start. Beyond it, it is presumed abandoned. */
export const givenUpMs = (startMs: number): number => 2 * longestStartMs(startMs);
