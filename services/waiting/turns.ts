/**
 * Time of the event loop, shared out among all that asks for it in small pieces: who has work that came at once does a piece
 * each time that it is given a turn, so that everything else is served in between.
 */
export interface Turns {
  /** Undefined while there is time left in this turn of the event loop; else a promise of the first turn that is free. */
  next(): Promise<void> | undefined;
}

/** Each turn of the event loop has `turnMs` for this work; those that wait are served in the order in which they came. */
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
