/** Lets at most `limit` tasks run at once; the others wait in order. A waiting task whose `signal` aborts gives up. */
export const createGate = (limit: number) => {
  let running = 0;
  const waiting: (() => void)[] = [];

  const enter = (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    if (running < limit) {
      running += 1;
      return Promise.resolve();
    }
    return new Promise((done, failed) => {
      const giveUp = () => {
        waiting.splice(waiting.indexOf(go), 1);
        failed(signal.reason);
      };
      const go = () => {
        signal.removeEventListener('abort', giveUp);
        done();
      };
      signal.addEventListener('abort', giveUp, { once: true });
      waiting.push(go);
    });
  };

  const leave = () => {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  return async <T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> => {
    await enter(signal);
    try {
      return await task();
    } finally {
      leave();
    }
  };
};

export type Gate = ReturnType<typeof createGate>;
