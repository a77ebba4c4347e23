import { CodeBoxError } from '#contract';

export interface CircuitOptions {
  /** Asks the daemon for a sign of life; rejects when there is none. */
  probe: (signal: AbortSignal) => Promise<unknown>;
  /** Told when the daemon stops answering, and when it answers again. */
  onChange?: (state: CircuitState, cause?: unknown) => void;
}

type CircuitState = 'open' | 'closed';

const probeMs = 5000;
const firstPauseMs = 1000;
const longestPauseMs = 5000;

/**
 * Keeps callers from waiting for a daemon that does not answer. A call that fails or takes long is a suspicion, which one probe
 * confirms or not. While the circuit is open calls fail at once; after a pause, growing from 1 to 5 s, the next call has the
 * daemon probed again and goes on when it answers.
 */
export const createCircuit = ({ probe, onChange }: CircuitOptions) => {
  let open: { until: number; pauseMs: number } | undefined;
  let opening = new AbortController();
  let probing: Promise<void> | undefined;

  const fail = (cause: unknown) => {
    const pauseMs = open === undefined ? firstPauseMs : Math.min(open.pauseMs * 2, longestPauseMs);
    const wasClosed = open === undefined;
    open = { until: performance.now() + pauseMs, pauseMs };
    if (!wasClosed) return;
    onChange?.('open', cause);
    opening.abort();
  };

  const succeed = () => {
    if (open === undefined) return;
    open = undefined;
    opening = new AbortController();
    onChange?.('closed');
  };

  return {
    /** Throws `unavailable` while the daemon is known not to answer. Answers what is aborted as soon as that is known. */
    async enter(): Promise<AbortSignal> {
      if (open !== undefined && performance.now() >= open.until) await this.check();
      if (open !== undefined) throw noAnswer(open.until);
      return opening.signal;
    },

    /** Probes the daemon now, once for all who ask at the same time. Never rejects. */
    check(): Promise<void> {
      probing ??= probe(AbortSignal.timeout(probeMs))
        .then(succeed, fail)
        .finally(() => {
          probing = undefined;
        });
      return probing;
    },
  };
};

const noAnswer = (until: number): CodeBoxError =>
  new CodeBoxError('unavailable', 'The Docker daemon does not answer.', {
    retryAfterSeconds: Math.max(1, Math.ceil((until - performance.now()) / 1000)),
  });
