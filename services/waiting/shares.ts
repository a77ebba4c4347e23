export interface SharesOptions {
  /** The most tasks that run at once, and the most of one owner. */
  places: number;
  each: number;
  /** How many of the places are only for owners that have none. */
  kept: number;
}

interface Owner {
  running: number;
  waiting: (() => void)[];
}

/**
 * Lets a bounded number of tasks run at once; the others wait. A free place goes to the owner that has the fewest, by turns. Some places are kept
 * for owners without any, so that a few owners whose tasks are long do not hold up all others. A waiting task whose `signal` aborts gives up.
 */
export const createShares = ({ places, each, kept }: SharesOptions) => {
  /** The owners of tasks, the one that got a place last at the end. */
  const owners = new Map<string, Owner>();
  let running = 0;

  const mayBegin = (own: number): boolean => own < each && running < (own === 0 ? places : places - kept);

  const give = (): void => {
    for (;;) {
      const ready = [...owners].filter(([, owner]) => owner.waiting.length > 0 && mayBegin(owner.running));
      const [first] = ready.sort(([, one], [, other]) => one.running - other.running);
      if (!first) return;
      const [name, owner] = first;
      owners.delete(name);
      owners.set(name, owner);
      owner.running += 1;
      running += 1;
      owner.waiting.shift()?.();
    }
  };
  const forgetIdle = (name: string, owner: Owner): void => {
    if (owner.running === 0 && owner.waiting.length === 0) owners.delete(name);
  };

  const enter = (name: string, signal: AbortSignal): Promise<Owner> => {
    signal.throwIfAborted();
    const owner = owners.get(name) ?? { running: 0, waiting: [] };
    owners.set(name, owner);
    return new Promise((done, failed) => {
      const giveUp = () => {
        owner.waiting.splice(owner.waiting.indexOf(go), 1);
        forgetIdle(name, owner);
        failed(signal.reason);
      };
      const go = () => {
        signal.removeEventListener('abort', giveUp);
        done(owner);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      owner.waiting.push(go);
      give();
    });
  };

  return async <T>(name: string, signal: AbortSignal, task: () => Promise<T>): Promise<T> => {
    const owner = await enter(name, signal);
    try {
      return await task();
    } finally {
      owner.running -= 1;
      running -= 1;
      forgetIdle(name, owner);
      give();
    }
  };
};
