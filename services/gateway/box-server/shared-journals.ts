import { CodeBoxError } from '#contract';
import { createSharedJournal, type SharedJournal } from './shared-journal.ts';

/** Where a journal is: of an execution, or of a command. */
export type JournalPath = `executions/${string}` | `commands/${string}`;

/** Opens the events of a journal after one of them; they come until `done`, or until the signal fires. */
type OpenJournal = (journal: JournalPath, after: number, signal: AbortSignal) => Promise<AsyncIterable<unknown>>;

/** To one box, for readers; what is asked of it otherwise has its own. */
const maxConnections = 512;

/**
 * The journals of a box for any number of readers: those of one journal share a connection. One that begins before what is kept of
 * the journal opens another, for all that come after it; one that falls behind has its own until it has come up to the others.
 */
export const createSharedJournals = (open: OpenJournal) => {
  const journals = new Map<JournalPath, SharedJournal>();
  let connections = 0;

  async function* counted(events: AsyncIterable<unknown>) {
    try {
      yield* events;
    } finally {
      connections -= 1;
    }
  }

  const connect = async (journal: JournalPath, after: number, signal: AbortSignal) => {
    if (connections >= maxConnections)
      throw new CodeBoxError('unavailable', 'This box has too many readers.', { retryAfterSeconds: 1 });
    connections += 1;
    try {
      return counted(await open(journal, after, signal));
    } catch (error) {
      connections -= 1;
      throw error;
    }
  };

  const share = (journal: JournalPath, after: number): SharedJournal => {
    const known = journals.get(journal);
    if (known && !known.isEnded() && !known.isPast(after)) return known;
    const one = createSharedJournal(after, (over) => connect(journal, after, over));
    journals.set(journal, one);
    return one;
  };

  const leave = (journal: JournalPath, one: SharedJournal) => {
    if (one.leave() && journals.get(journal) === one) journals.delete(journal);
  };

  /** What the others have read past, up to where they are. */
  async function* catchUp(journal: JournalPath, one: SharedJournal, after: number, signal: AbortSignal | undefined) {
    const over = new AbortController();
    const either = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
    let seq = after;
    try {
      for await (const value of await connect(journal, after, either)) {
        seq += 1;
        yield value;
        if (!one.isPast(seq)) return;
      }
    } finally {
      over.abort();
    }
  }

  async function* read(journal: JournalPath, one: SharedJournal, after: number, signal: AbortSignal | undefined) {
    let seq = after;
    try {
      for (;;) {
        const start = seq;
        if (one.isPast(seq)) {
          for await (const value of catchUp(journal, one, seq, signal)) {
            seq += 1;
            yield value;
          }
          // The box broke off, which its readers know from what came last.
          if (seq === start) return;
          continue;
        }
        const event = await one.next(seq, signal);
        if (event) {
          seq += 1;
          yield event.value;
        } else if (!one.isPast(seq)) return;
      }
    } finally {
      leave(journal, one);
    }
  }

  return {
    /**
     * The events after `after`, then what follows, to `done`. Throws what the box refuses, and `unavailable` when too many of its
     * readers have connections of their own.
     */
    async events(journal: JournalPath, after: number, signal?: AbortSignal): Promise<AsyncGenerator<unknown>> {
      signal?.throwIfAborted();
      const one = share(journal, after);
      one.join();
      try {
        await one.opened;
      } catch (error) {
        leave(journal, one);
        throw error;
      }
      return read(journal, one, after, signal);
    },
  };
};
