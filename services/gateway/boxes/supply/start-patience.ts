import { availableParallelism, loadavg } from 'node:os';

/** Says whether a start waits for what it does not do itself: its time does not pass meanwhile. */
export type Hold = (isHeld: boolean) => void;

export interface PatienceOptions {
  /** How long a start may take on a machine that is not busy. */
  startMs: number;
  /** Returns how many processes compete for each processor; less than 1 counts as 1. */
  load?: () => number;
  checkEveryMs?: number;
}

/** The factor by which the deadline of a start grows at most, however busy the machine is. */
const maxPatience = 10;

/** Returns the longest that a start may take, in ms. */
export const longestStartMs = (startMs: number): number => maxPatience * startMs;

const machineLoad = (): number => (loadavg()[0] ?? 0) / availableParallelism();

/**
 * Gives starts a deadline that allows for a busy machine: while processes compete for processors, time passes more slowly by that
 * factor, and while this process is suspended it does not pass. Giving up a start because the whole machine is slow would only repeat
 * the work.
 */
export const createPatience = ({ startMs, load = machineLoad, checkEveryMs = 250 }: PatienceOptions) => {
  const longestMs = longestStartMs(startMs);

  /** Runs a task, whose signal fires when its time is over or when `stop` fires. */
  return async <T>(
    stop: AbortSignal | undefined,
    task: (signal: AbortSignal, hold: Hold) => Promise<T>,
  ): Promise<T> => {
    let isHeld = false;
    const hold: Hold = (now) => {
      isHeld = now;
    };
    const over = new AbortController();
    const startedAt = performance.now();
    let checkedAt = startedAt;
    let passedMs = 0;
    const check = () => {
      const now = performance.now();
      if (!isHeld) passedMs += Math.min(now - checkedAt, 2 * checkEveryMs) / Math.max(1, load());
      checkedAt = now;
      if (passedMs >= startMs || now - startedAt >= longestMs)
        over.abort(new DOMException('It did not start in time.', 'TimeoutError'));
    };
    const timer = setInterval(check, checkEveryMs);
    try {
      return await task(stop ? AbortSignal.any([over.signal, stop]) : over.signal, hold);
    } finally {
      clearInterval(timer);
    }
  };
};
