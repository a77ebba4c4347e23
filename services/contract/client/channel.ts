import { CodeBoxError } from '../problems/errors.ts';

/** A queue of items from one producer to one reader, in order. */
export interface Channel<T> extends AsyncIterable<T> {
  /** `size`, usually in bytes, counts against the bound. */
  push: (item: T, size: number) => void;
  /** Ends the channel; with an error, reading throws it. Only the first call counts. */
  end: (error?: unknown) => void;
}

/** A WebSocket offers no back pressure, so unread items are kept; past this many bytes reading ends. */
const maxWaiting = 64 * 1024 * 1024;

/**
 * A channel for one reader. `onLeave` is called when reading is over, also when the bound was exceeded, which throws
 * `too_large`.
 */
export const createChannel = <T>(onLeave: () => void = () => {}): Channel<T> => {
  const waiting: { item: T; size: number }[] = [];
  let total = 0;
  let over: { error?: unknown } | undefined;
  let wake = () => {};

  const end = (error?: unknown) => {
    over ??= error === undefined ? {} : { error };
    wake();
  };

  return {
    end,
    push(item, size) {
      if (over) return;
      waiting.push({ item, size });
      total += size;
      wake();
      if (total <= maxWaiting) return;
      end(new CodeBoxError('too_large', 'The WebSocket delivered more than was read in time.'));
      onLeave();
    },
    async *[Symbol.asyncIterator]() {
      try {
        for (;;) {
          const next = waiting.shift();
          if (next) {
            total -= next.size;
            yield next.item;
          } else if (over) {
            if ('error' in over) throw over.error;
            return;
          } else {
            await new Promise<void>((resume) => {
              wake = resume;
            });
          }
        }
      } finally {
        end();
        onLeave();
      }
    },
  };
};
