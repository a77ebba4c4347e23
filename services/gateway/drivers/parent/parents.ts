import { CodeBoxError } from '#contract';
import { orAborted } from '../../../waiting/or-aborted.ts';
import type { ForkRequest, Parent } from './parent.ts';

const startMs = 30_000;
/** No other parent is started for this long after one that forked nothing. */
const pauseMs = 10_000;

/** How long a box waits for the start of a parent and for its fork, and how long the processes of a fork that failed may take to end. */
export interface ForkDeadlines {
  startWaitMs: number;
  forkMs: number;
  closeMs: number;
}

export interface Parents {
  /** Whether there is one, which is started if none runs. */
  ready(signal: AbortSignal): Promise<boolean>;
  /**
   * As `fork` of a parent, of which one is started if none runs. Undefined when the box has to start a server itself. Throws `unavailable` when
   * it must not, as a process may still enter it.
   */
  fork(
    request: ForkRequest,
    environment: Record<string, string>,
    signal: AbortSignal,
  ): Promise<(() => void) | undefined>;
  /** Stops using the current parent, if there is one. */
  leave(): void;
}

/** Keeps using one parent, which `start` finds or starts for the first box. `onFork` is called with the reason of each fork that failed. */
export const createParents = (
  start: (signal: AbortSignal) => Promise<Parent>,
  onFork: (failure?: unknown) => void = () => {},
  { startWaitMs, forkMs, closeMs }: ForkDeadlines = { startWaitMs: 10_000, forkMs: 10_000, closeMs: 5000 },
): Parents => {
  let current: Promise<Parent> | undefined;
  let hasForked = false;
  let [beganAt, pausedUntil] = [0, 0];
  let hasLeft = false;

  const pause = () => {
    current = undefined;
    pausedUntil = performance.now() + pauseMs;
  };
  const begin = (): Promise<Parent> => {
    if (performance.now() < pausedUntil) throw new Error('the last parent has just ended, or did not start');
    [hasForked, beganAt] = [false, performance.now()];
    const starting = start(AbortSignal.timeout(startMs));
    starting.catch(pause);
    current = starting;
    return starting;
  };
  const running = async (signal: AbortSignal): Promise<Parent> => {
    const awaited = current ?? begin();
    const parent = await orAborted(awaited, signal);
    if (!parent.ended) return parent;
    // Another call may have replaced it meanwhile.
    if (current === awaited) {
      current = undefined;
      // A parent that other gateways have used may end at any time.
      if (!hasForked && performance.now() - beganAt < pauseMs) pause();
    }
    return await running(signal);
  };

  const leave = () => {
    hasLeft = true;
    void current?.then((parent) => parent.leave()).catch(() => undefined);
    current = undefined;
  };

  return {
    leave,
    async ready(signal) {
      try {
        await running(AbortSignal.any([signal, AbortSignal.timeout(startWaitMs)]));
        return true;
      } catch (failure) {
        onFork(failure);
        return false;
      }
    },
    async fork(request, environment, signal) {
      try {
        const parent = await running(AbortSignal.any([signal, AbortSignal.timeout(startWaitMs)]));
        const inTime = AbortSignal.any([signal, AbortSignal.timeout(forkMs)]);
        const serve = await parent.fork(request, environment, closeMs, inTime);
        hasForked = true;
        onFork();
        return serve;
      } catch (failure) {
        onFork(failure);
        if (failure instanceof CodeBoxError) throw failure;
        return undefined;
      } finally {
        // This call began before `leave` was called.
        if (hasLeft) leave();
      }
    },
  };
};
