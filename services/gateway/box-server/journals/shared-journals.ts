import { CodeBoxError } from '#contract';
import { createTurns } from '../../../waiting/turns.ts';
import { createSharedJournal, type SharedJournal } from './shared-journal.ts';

/** The path of the journal of an execution or a command. */
export type JournalPath = `executions/${string}` | `commands/${string}`;

/** Streams the events of a journal after one of them, to `done` or until the signal is aborted. */
type OpenJournal = (journal: JournalPath, after: number, signal: AbortSignal) => Promise<AsyncIterable<unknown>>;

/** The most connections of readers to one box; other calls have connections of their own. */
const maxConnections = 512;
/** An event goes to all its readers; other work of the gateway is served in between. */
const turns = createTurns(10);

/**
 * The journals of a box for any number of readers: readers of one journal share a connection. A reader that starts before the buffer opens
 * a new connection, which later readers share; one that falls behind has a connection of its own until it has caught up.
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
    const one = createSharedJournal(after, (left) => connect(journal, after, left));
    journals.set(journal, one);
    return one;
  };

  const leave = (journal: JournalPath, one: SharedJournal) => {
    if (one.leave() && journals.get(journal) === one) journals.delete(journal);
  };

  /** Reads the events that have left the buffer, up to those in it. */
  async function* catchUp(journal: JournalPath, one: SharedJournal, after: number, signal: AbortSignal | undefined) {
    const done = new AbortController();
    const either = signal ? AbortSignal.any([signal, done.signal]) : done.signal;
    let seq = after;
    try {
      for await (const value of await connect(journal, after, either)) {
        seq += 1;
        yield value;
        if (!one.isPast(seq)) return;
      }
    } finally {
      done.abort();
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
          // The box closed the connection: readers notice that the last event is not `done`.
          if (seq === start) return;
          continue;
        }
        const event = await one.next(seq, signal);
        if (event) {
          seq += 1;
          const turn = turns.next();
          if (turn) await turn;
          yield event.value;
        } else if (!one.isPast(seq)) return;
      }
    } finally {
      leave(journal, one);
    }
  }

  return {
    /**
     * Streams the events after `after`, then live events, to `done`. Throws the refusal of the box, and `unavailable` when too many readers
     * of it have connections.
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
