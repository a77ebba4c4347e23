import { availableParallelism, loadavg } from 'node:os';

export interface PatienceOptions {
  /** What a start may take on a machine that has a processor for it. */
  startMs: number;
  /** How many want each processor; at least 1 is counted. */
  crowd?: () => number;
  lookEveryMs?: number;
}

/** However busy the machine is: by so much longer a start may take at most. */
const mostPatience = 10;

/** The longest that a start may take, in ms. */
export const longestStartMs = (startMs: number): number => mostPatience * startMs;

const crowdOfMachine = (): number => (loadavg()[0] ?? 0) / availableParallelism();

/**
 * Gives starts a deadline that is fair to them: while more want to run than there are processors, time passes as much more slowly
 * for them, and while this process stands still not at all. What is thrown away for being slow where all is slow would only be tried
 * again, on a machine that has done the work for nothing.
 */
export const createPatience = ({ startMs, crowd = crowdOfMachine, lookEveryMs = 250 }: PatienceOptions) => {
  const longestMs = longestStartMs(startMs);

  /** Does a task, whose signal fires when it has had its time or `stop` fires. */
  return async <T>(stop: AbortSignal | undefined, task: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const over = new AbortController();
    const startedAt = performance.now();
    let lookedAt = startedAt;
    let hadMs = 0;
    const look = () => {
      const now = performance.now();
      hadMs += Math.min(now - lookedAt, 2 * lookEveryMs) / Math.max(1, crowd());
      lookedAt = now;
      if (hadMs >= startMs || now - startedAt >= longestMs)
        over.abort(new DOMException('It did not start in time.', 'TimeoutError'));
    };
    const timer = setInterval(look, lookEveryMs);
    try {
      return await task(stop ? AbortSignal.any([over.signal, stop]) : over.signal);
    } finally {
      clearInterval(timer);
    }
  };
};
