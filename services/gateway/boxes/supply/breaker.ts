export interface BreakerOptions {
  /** The pause after the first failure, doubled by each further one. */
  firstPauseMs?: number;
  longestPauseMs?: number;
  now?: () => number;
}

/**
 * A circuit breaker: after a failure it admits no attempt for a pause that grows, then a single one, whose success closes it.
 */
export const createBreaker = ({
  firstPauseMs = 1000,
  longestPauseMs = 60_000,
  now = () => performance.now(),
}: BreakerOptions = {}) => {
  let failures = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;
  let isTrying = false;

  return {
    /** Returns whether the last attempt failed. */
    isOpen: (): boolean => failures > 0,
    /** Returns whether no attempt may begin now. */
    isPaused: (): boolean => failures > 0 && (isTrying || now() < pausedUntil),
    /** Returns whether an attempt may begin. If so, the caller has to call `succeed`, `fail` or `leave`. */
    enter(): boolean {
      if (failures === 0) return true;
      if (isTrying || now() < pausedUntil) return false;
      isTrying = true;
      return true;
    },
    /** Withdraws an attempt that did not take place. */
    leave(): void {
      isTrying = false;
    },
    succeed(): void {
      isTrying = false;
      failures = 0;
    },
    /** Returns the length of the pause, in ms. Failures of attempts that began together count as one. */
    fail(): number {
      if (failures === 0 || isTrying) failures += 1;
      isTrying = false;
      const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** (failures - 1));
      pausedUntil = now() + pauseMs;
      return pauseMs;
    },
  };
};

export type Breaker = ReturnType<typeof createBreaker>;
