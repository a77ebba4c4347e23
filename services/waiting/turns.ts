/**
 * Time of the event loop, shared among all work that comes in small pieces: each turn allows one piece, so that
 * everything else is served in between.
 */
export interface Turns {
  /** Undefined while this turn of the event loop has time left; otherwise a promise of the first free turn. */
  next(): Promise<void> | undefined;
}

/** Each turn of the event loop has `turnMs` for this work; waiters are served in order. */
export const createTurns = (turnMs: number): Turns => {
  const line: (() => void)[] = [];
  let endsAt: number | undefined;

  const begin = (): number => {
    setImmediate(pass);
    endsAt = performance.now() + turnMs;
    return endsAt;
  };
  const pass = () => {
    endsAt = undefined;
    const first = line.shift();
    if (!first) return;
    begin();
    first();
  };

  return {
    next() {
      if (performance.now() < (endsAt ?? begin())) return undefined;
      return new Promise((resolve) => line.push(resolve));
    },
  };
};
