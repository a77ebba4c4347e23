import type { ForkRequest, Parent } from './parent.ts';

/** A parent is replaced after so many forks, so that boxes do not share an address layout for ever. */
const maxForks = 1000;
const forkMs = 10_000;
const startMs = 30_000;
/** No other parent is started for this long after one that forked nothing. */
const pauseMs = 10_000;

export interface Parents {
  /**
   * As `fork` of a parent, of which one is started if none runs. Undefined when the box has to start a server itself. Never rejects.
   */
  fork(
    request: ForkRequest,
    environment: Record<string, string>,
    signal: AbortSignal,
  ): Promise<(() => void) | undefined>;
}

/** Keeps one parent running once boxes are created. `onFork` is called with the reason of each fork that failed. */
export const createParents = (
  start: (signal: AbortSignal) => Promise<Parent>,
  onFork: (failure?: unknown) => void = () => {},
): Parents => {
  let current: Promise<Parent> | undefined;
  let hasForked = false;
  let pausedUntil = 0;

  const pause = () => {
    current = undefined;
    pausedUntil = performance.now() + pauseMs;
  };
  const begin = (): Promise<Parent> => {
    if (performance.now() < pausedUntil) throw new Error('the last parent has just ended, or did not start');
    hasForked = false;
    const starting = start(AbortSignal.timeout(startMs));
    starting.catch(pause);
    current = starting;
    return starting;
  };
  const running = async (): Promise<Parent> => {
    const awaited = current ?? begin();
    const parent = await awaited;
    if (!parent.ended && parent.forks < maxForks) return parent;
    // Another call may have replaced it meanwhile.
    if (current === awaited) {
      current = undefined;
      if (!hasForked) pause();
      // Boxes that are being forked from it have this long.
      setTimeout(() => parent.end(), forkMs).unref();
    }
    return await running();
  };

  return {
    async fork(request, environment, signal) {
      try {
        const parent = await running();
        const serve = await parent.fork(request, environment, AbortSignal.any([signal, AbortSignal.timeout(forkMs)]));
        hasForked = true;
        onFork();
        return serve;
      } catch (failure) {
        onFork(failure);
        return undefined;
      }
    },
  };
};
