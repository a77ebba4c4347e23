import { CodeBoxError } from '#contract';

export interface CircuitOptions {
  /** The name of the backend in messages: `The Docker daemon`. */
  backend: string;
  /** Probes the backend; rejects when it does not respond. */
  probe: (signal: AbortSignal) => Promise<unknown>;
  /** Called when the backend stops responding, and when it responds again. */
  onChange?: (state: CircuitState, cause?: unknown) => void;
}

type CircuitState = 'open' | 'closed';

const probeMs = 5000;
const firstPauseMs = 1000;
const longestPauseMs = 5000;

/**
 * A circuit breaker that keeps callers from waiting for a backend that does not respond. A call that fails or takes long raises a suspicion,
 * which one probe confirms or refutes. While the circuit is open, calls fail at once; after a pause, growing from 1 to 5 s, the next call
 * probes the backend again and proceeds if it responds.
 */
export const createCircuit = ({ backend, probe, onChange }: CircuitOptions) => {
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
    /** Throws `unavailable` while the circuit is open. Resolves with a signal that is aborted as soon as the circuit opens. */
    async enter(): Promise<AbortSignal> {
      if (open !== undefined && performance.now() >= open.until) await this.check();
      if (open !== undefined) throw noResponse(backend, open.until);
      return opening.signal;
    },

    /** Probes the backend now, once for all concurrent callers. Never rejects. */
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

const noResponse = (backend: string, until: number): CodeBoxError =>
  new CodeBoxError('unavailable', `${backend} does not respond.`, {
    retryAfterSeconds: Math.max(1, Math.ceil((until - performance.now()) / 1000)),
  });
