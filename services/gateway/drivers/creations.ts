import { CodeBoxError } from '#contract';
import { orAborted } from '../../waiting/or-aborted.ts';
import type { Instance, InstanceSpec } from './driver.ts';
import { specDigest } from './spec-digest.ts';

interface Creation {
  digest: string;
  created: Promise<Instance>;
  stop: AbortController;
}

/** Serialises the creation and the destruction of an instance: otherwise one would remove what the other has just created. */
export const createCreations = () => {
  const pending = new Map<string, Creation>();

  const begin = (
    spec: InstanceSpec,
    signal: AbortSignal,
    task: (signal: AbortSignal) => Promise<Instance>,
  ): Creation => {
    const stop = new AbortController();
    const created = task(AbortSignal.any([signal, stop.signal]))
      .then((instance) => {
        stop.signal.throwIfAborted();
        return instance;
      })
      .catch((cause: unknown) => {
        if (!stop.signal.aborted) throw cause;
        throw new CodeBoxError('gone', 'The box was deleted before it was ready.', { cause });
      })
      .finally(() => pending.delete(spec.id));
    const creation = { digest: specDigest(spec), created, stop };
    pending.set(spec.id, creation);
    return creation;
  };

  return {
    /**
     * Creates an instance, once at a time: a concurrent call for the same instance waits for the first. Throws `gone` when the instance is
     * destroyed meanwhile, and `conflict` when an instance with another spec is being created under its id.
     */
    async create(
      spec: InstanceSpec,
      signal: AbortSignal,
      task: (signal: AbortSignal) => Promise<Instance>,
    ): Promise<Instance> {
      const current = pending.get(spec.id);
      if (current && current.digest !== specDigest(spec)) throw idIsTaken();
      return await (current ? orAborted(current.created, signal) : begin(spec, signal, task).created);
    },

    /** Cancels the creation of an instance, if one is in progress, and waits until it has cleaned up. */
    async cancel(id: string, signal: AbortSignal): Promise<void> {
      const creation = pending.get(id);
      creation?.stop.abort();
      if (creation)
        await orAborted(
          creation.created.catch(() => undefined),
          signal,
        );
    },
  };
};

export const idIsTaken = (cause?: unknown): CodeBoxError =>
  new CodeBoxError('conflict', 'There is another instance with this id.', { cause });
