import { CodeBoxError } from '#contract';

/** A deadline on silence: it runs only while it is the other side's turn. */
export interface Patience {
  /** Aborted when the other side has been silent for too long. */
  signal: AbortSignal;
  /** From now on the other side is waited for, anew. */
  wait: () => void;
  /** It has answered, or is not waited for any more. */
  rest: () => void;
}

/** Patience with a store of blobs: past `ms` of its silence the signal aborts with `unavailable`. To be put to rest at the end. */
export const createPatience = (ms: number): Patience => {
  const over = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const rest = () => clearTimeout(timer);
  return {
    signal: over.signal,
    wait() {
      rest();
      timer = setTimeout(() => over.abort(silentError()), ms);
    },
    rest,
  };
};

export const silentError = (cause?: unknown) =>
  new CodeBoxError('unavailable', 'The store of blobs does not answer.', { cause, retryAfterSeconds: 10 });
