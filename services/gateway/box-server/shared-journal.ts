/** What is kept of a journal for readers that are a little behind the others, in characters. */
const maxKept = 1024 * 1024;

/** The events of one journal for many readers. Of each the number is known by its place: whoever reads checks it. */
export type SharedJournal = ReturnType<typeof createSharedJournal>;

/**
 * Reads a journal after one of its events, as fast as the fastest reader takes it, and keeps the last events for the others.
 * `open` gets a signal that fires when all readers have left.
 */
export const createSharedJournal = (after: number, open: (over: AbortSignal) => Promise<AsyncIterable<unknown>>) => {
  const over = new AbortController();
  const kept: { value: unknown; size: number }[] = [];
  const waiting = new Set<() => void>();
  /** The number of the event before those that are kept. */
  let before = after;
  let size = 0;
  let readers = 0;
  let isEnded = false;
  let failure: unknown;
  let hungry = Promise.withResolvers<void>();

  const last = () => before + kept.length;
  const wake = () => {
    for (const go of waiting) go();
  };
  const keep = (value: unknown) => {
    const added = sizeOf(value);
    kept.push({ value, size: added });
    size += added;
    while (size > maxKept && kept.length > 1) {
      size -= kept.shift()?.size ?? 0;
      before += 1;
    }
  };

  const pump = async (events: AsyncIterable<unknown>) => {
    try {
      for await (const value of events) {
        hungry = Promise.withResolvers();
        keep(value);
        isEnded = isDone(value);
        wake();
        if (isEnded) return;
        await hungry.promise;
      }
    } catch (error) {
      failure = error;
    }
    isEnded = true;
    wake();
  };

  const opened = open(over.signal).then(
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
      hungry.resolve();
    });

  return {
    /** Resolves when the box has begun to answer; rejects with what refused that. */
    opened,
    /** Whether nothing more will come. */
    isEnded: (): boolean => isEnded,
    /** Whether what follows this event is not kept any more. */
    isPast: (seq: number): boolean => seq < before,

    join(): void {
      readers += 1;
    },
    /** Answers whether that was the last one: then the connection is given up. */
    leave(): boolean {
      readers -= 1;
      if (readers > 0) return false;
      // What has ended leaves its connection to the next one.
      if (!isEnded) over.abort();
      hungry.resolve();
      return true;
    },

    /** The event after this one, waited for; undefined when nothing follows, or it is past. Throws what broke it off. */
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
