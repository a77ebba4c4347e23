import { CodeBoxError } from './errors.ts';

/** Items on their way from where they come to the one who reads them, in order. */
export interface Channel<T> extends AsyncIterable<T> {
  /** `size` in bytes or so counts against the bound. */
  push: (item: T, size: number) => void;
  /** Nothing comes any more; with an error, reading ends by that. The first end counts. */
  end: (error?: unknown) => void;
}

/** What comes over a WebSocket cannot be told to wait, so what nobody reads is kept; past this much reading ends. */
const maxWaiting = 64 * 1024 * 1024;

/** A channel for one reader. `onLeave` is called when reading is over, also when more came than was read: `too_large`. */
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
      end(new CodeBoxError('too_large', 'More came over the WebSocket than was read.'));
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
