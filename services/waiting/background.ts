import { setTimeout as sleep } from 'node:timers/promises';

/** How long an aborted task may take to end. */
const abortMs = 2000;

/**
 * Work that continues after its request. Its failures are reported, never thrown, and a stopping gateway waits for it:
 * `drain` gives it some time, then aborts `signal`.
 */
export const createBackground = (onError: (what: string, error: unknown) => void) => {
  const tasks = new Set<Promise<unknown>>();
  const controller = new AbortController();

  /** Resolves with whether the task succeeded. */
  const attempt = async (what: string, task: () => Promise<unknown>): Promise<boolean> => {
    try {
      await task();
      return true;
    } catch (error) {
      if (!controller.signal.aborted) onError(what, error);
      return false;
    }
  };

  const run = (what: string, task: () => Promise<unknown>): void => {
    const running = attempt(what, task).finally(() => tasks.delete(running));
    tasks.add(running);
  };

  return {
    signal: controller.signal,
    attempt,
    run,
    /**
     * Runs a task for each item. Resolves when all have ended or, so that one which takes long does not hold up what follows, after
     * `patienceMs`; the others then go on.
     */
    async each<T>(
      items: readonly T[],
      { what, patienceMs }: { what: string; patienceMs: number },
      task: (item: T) => Promise<void>,
    ): Promise<void> {
      const all = Promise.all(items.map((item) => attempt(what, () => task(item))));
      run(what, () => all);
      const timer = new AbortController();
      await Promise.race([all, sleep(patienceMs, undefined, { signal: timer.signal }).catch(() => {})]);
      timer.abort();
    },
    /** Returns a function that starts the task unless its previous run is still active. */
    oneAtATime(what: string, task: () => Promise<unknown>): () => void {
      let goesOn = false;
      return () => {
        if (goesOn) return;
        goesOn = true;
        run(what, () =>
          task().finally(() => {
            goesOn = false;
          }),
        );
      };
    },
    async drain(deadlineMs: number): Promise<void> {
      const timer = new AbortController();
      const within = (ms: number) => sleep(ms, undefined, { signal: timer.signal }).catch(() => {});
      await Promise.race([Promise.all([...tasks]), within(deadlineMs)]);
      controller.abort();
      await Promise.race([Promise.all([...tasks]), within(abortMs)]);
      timer.abort();
    },
  };
};

export type Background = ReturnType<typeof createBackground>;
