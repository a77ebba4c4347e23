/** How many characters of a journal are buffered for readers that are a little behind. */
const maxKept = 1024 * 1024;
/** How many are buffered of all journals; beyond this each has only `leastKept`. */
const maxKeptInAll = 64 * 1024 * 1024;
const leastKept = 16 * 1024;
let keptInAll = 0;

/** The events of one journal for many readers. The number of an event follows from its position; readers check it. */
export type SharedJournal = ReturnType<typeof createSharedJournal>;

/**
 * Reads a journal from after one of its events, at the speed of the fastest reader, and buffers the latest events for the others. `open`
 * gets a signal that is aborted when all readers have left.
 */
export const createSharedJournal = (after: number, open: (left: AbortSignal) => Promise<AsyncIterable<unknown>>) => {
  const left = new AbortController();
  const kept: { value: unknown; size: number }[] = [];
  const waiting = new Set<() => void>();
  /** The number of the event before those in the buffer. */
  let before = after;
  let size = 0;
  let readers = 0;
  let isEnded = false;
  let failure: unknown;
  let demand = Promise.withResolvers<void>();

  const last = () => before + kept.length;
  const wake = () => {
    for (const go of waiting) go();
  };
  const resize = (by: number) => {
    size += by;
    keptInAll += by;
  };
  const keep = (value: unknown) => {
    const added = sizeOf(value);
    kept.push({ value, size: added });
    resize(added);
    while (kept.length > 1 && size > (keptInAll > maxKeptInAll ? leastKept : maxKept)) {
      resize(-(kept.shift()?.size ?? 0));
      before += 1;
    }
  };

  const pump = async (events: AsyncIterable<unknown>) => {
    try {
      for await (const value of events) {
        if (readers === 0) return;
        demand = Promise.withResolvers();
        keep(value);
        isEnded = isDone(value);
        wake();
        if (isEnded) return;
        await demand.promise;
      }
    } catch (error) {
      failure = error;
    }
    isEnded = true;
    wake();
  };

  const opened = open(left.signal).then(
    (events) => void pump(events),
    (error: unknown) => {
      isEnded = true;
      throw error;
    },
  );
  opened.catch(() => {});

  const wait = (signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve) => {
      const go = () => {
        waiting.delete(go);
        signal?.removeEventListener('abort', go);
        resolve();
      };
      waiting.add(go);
      signal?.addEventListener('abort', go, { once: true });
      demand.resolve();
    });

  return {
    /** Resolves when the box has started to respond; rejects with its refusal. */
    opened,
    /** Whether no event will follow. */
    isEnded: (): boolean => isEnded,
    /** Whether the event after this one is no longer in the buffer. */
    isPast: (seq: number): boolean => seq < before,

    join(): void {
      readers += 1;
    },
    /** Removes a reader; returns whether it was the last one, which closes the connection. */
    leave(): boolean {
      readers -= 1;
      if (readers > 0) return false;
      // A stream that has ended leaves its connection for reuse.
      if (!isEnded) left.abort();
      demand.resolve();
      resize(-size);
      return true;
    },

    /** Waits for the event after this one; resolves with undefined when none follows or it has left the buffer. Throws the error of the stream. */
    async next(seq: number, signal: AbortSignal | undefined): Promise<{ value: unknown } | undefined> {
      for (;;) {
        signal?.throwIfAborted();
        if (seq < last()) return kept[seq - before];
        if (failure !== undefined) throw failure;
        if (isEnded) return undefined;
        await wait(signal);
      }
    },
  };
};

const isDone = (value: unknown): boolean => (value as { type?: unknown } | null)?.type === 'done';

const sizeOf = (value: unknown): number => {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.values(value).reduce((sum: number, part) => sum + sizeOf(part), 64);
};
