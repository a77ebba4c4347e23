export interface BreakerOptions {
  /** The pause after the first failure; each further one doubles it. */
  firstPauseMs?: number;
  longestPauseMs?: number;
  now?: () => number;
}

/**
 * Keeps what fails from being tried again and again: after a failure nothing is tried for a pause that grows, then one thing,
 * whose success closes the breaker.
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
    /** Whether the last try failed. */
    isOpen: (): boolean => failures > 0,
    /** Whether to try now. Whoever is let in has to tell how it went, or that it did not try. */
    enter(): boolean {
      if (failures === 0) return true;
      if (isTrying || now() < pausedUntil) return false;
      isTrying = true;
      return true;
    },
    /** It was not tried after all. */
    leave(): void {
      isTrying = false;
    },
    succeed(): void {
      isTrying = false;
      failures = 0;
    },
    /** Answers how long the pause is, in ms. Failures of tries that began together count as one. */
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
