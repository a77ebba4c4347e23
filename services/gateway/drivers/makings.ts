import { CodeBoxError } from '#contract';
import { orAborted } from '../../waiting/or-aborted.ts';
import type { Instance, InstanceSpec } from './driver.ts';
import { specDigest } from './spec-digest.ts';

interface Making {
  digest: string;
  made: Promise<Instance>;
  stop: AbortController;
}

/** Keeps the making and the end of one instance apart: one takes away beneath the other what that has just made. */
export const createMakings = () => {
  const underway = new Map<string, Making>();

  const begin = (spec: InstanceSpec, signal: AbortSignal, task: (signal: AbortSignal) => Promise<Instance>): Making => {
    const stop = new AbortController();
    const made = task(AbortSignal.any([signal, stop.signal]))
      .then((instance) => {
        stop.signal.throwIfAborted();
        return instance;
      })
      .catch((cause: unknown) => {
        if (!stop.signal.aborted) throw cause;
        throw new CodeBoxError('gone', 'The box was deleted before it was ready.', { cause });
      })
      .finally(() => underway.delete(spec.id));
    const making = { digest: specDigest(spec), made, stop };
    underway.set(spec.id, making);
    return making;
  };

  return {
    /**
     * One making at a time for each instance: who asks for the same one meanwhile waits with the first. Throws `gone` when the
     * instance is ended meanwhile, `conflict` when another one is being made under its id.
     */
    async make(
      spec: InstanceSpec,
      signal: AbortSignal,
      task: (signal: AbortSignal) => Promise<Instance>,
    ): Promise<Instance> {
      const current = underway.get(spec.id);
      if (current && current.digest !== specDigest(spec)) throw idIsTaken();
      return await (current ? orAborted(current.made, signal) : begin(spec, signal, task).made);
    },

    /** Breaks off the making of an instance, if it is being made, and waits until that has taken back what it had made. */
    async breakOff(id: string, signal: AbortSignal): Promise<void> {
      const making = underway.get(id);
      making?.stop.abort();
      if (making)
        await orAborted(
          making.made.catch(() => undefined),
          signal,
        );
    },
  };
};

export const idIsTaken = (cause?: unknown): CodeBoxError =>
  new CodeBoxError('conflict', 'There is another instance with this id.', { cause });
