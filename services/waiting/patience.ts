/** A deadline on silence, which runs only while the other side has to act. */
export interface Patience {
  /** Aborted when the other side has been silent for too long. */
  signal: AbortSignal;
  /** Restarts the deadline: the other side has to act. */
  wait: () => void;
  /** Stops the deadline: the other side has responded, or nobody waits for it. */
  rest: () => void;
}

/** A deadline of `ms`; then the signal aborts with `silent`. It runs from the first `wait`. Call `rest` at the end. */
export const createPatience = (ms: number, silent: () => Error): Patience => {
  const over = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const rest = () => clearTimeout(timer);
  return {
    signal: over.signal,
    wait() {
      rest();
      timer = setTimeout(() => over.abort(silent()), ms);
    },
    rest,
  };
};
