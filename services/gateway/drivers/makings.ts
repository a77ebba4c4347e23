import { CodeBoxError } from '#contract';
import { orAborted } from '../../waiting/or-aborted.ts';

interface Making {
  stop: AbortController;
  settled: Promise<unknown>;
}

/** Keeps the making and the end of one instance apart: one takes away beneath the other what that has just made. */
export const createMakings = () => {
  const underway = new Map<string, Making>();

  return {
    /** Throws `gone` when the instance is ended meanwhile, `conflict` when it is being made already. */
    async make<T>(id: string, signal: AbortSignal, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
      if (underway.has(id)) throw new CodeBoxError('conflict', 'There is an instance with this id already.');
      const stop = new AbortController();
      const made = task(AbortSignal.any([signal, stop.signal]));
      const settled = made.catch(() => {});
      underway.set(id, { stop, settled });
      try {
        const instance = await made;
        stop.signal.throwIfAborted();
        return instance;
      } catch (cause) {
        if (!stop.signal.aborted) throw cause;
        throw new CodeBoxError('gone', 'The box was deleted before it was ready.', { cause });
      } finally {
        underway.delete(id);
      }
    },

    /** Breaks off the making of an instance, if it is being made, and waits until that has taken back what it had made. */
    async breakOff(id: string, signal: AbortSignal): Promise<void> {
      const making = underway.get(id);
      making?.stop.abort();
      if (making) await orAborted(making.settled, signal);
    },
  };
};
