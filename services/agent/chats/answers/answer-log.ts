import { orAborted } from '../../../waiting/or-aborted.ts';
import type { NewEvent, StoredEvent } from '../messages/stored-event.ts';

/** How many characters the events of one answer may take before they are replaced by fewer, larger ones. */
const roomCharacters = 2_000_000;

/**
 * The numbered events of a running answer, for any number of followers. When they become too many, `compact` returns
 * fewer events with the same content, which replace them under new numbers; followers then begin anew with `start`.
 */
export const createAnswerLog = (compact: () => NewEvent[]) => {
  let events: StoredEvent[] = [];
  let last = 0;
  let size = 0;
  let room = roomCharacters;
  let isOver = false;
  let changed = Promise.withResolvers<void>();

  const number = (event: NewEvent): void => {
    last += 1;
    const numbered = { ...event, seq: last };
    size += JSON.stringify(numbered).length;
    events.push(numbered);
  };
  const wake = () => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };

  return {
    add(event: NewEvent): void {
      const isEnd = event.type === 'error' || event.type === 'done';
      // The compacted events cover everything so far, except for the events that end the answer.
      if (isEnd || size + JSON.stringify(event).length <= room) number(event);
      else {
        events = [];
        size = 0;
        for (const compacted of compact()) number(compacted);
        room = size + roomCharacters;
      }
      if (event.type === 'done') isOver = true;
      wake();
    },

    /** Returns the number of the last event. */
    last: (): number => last,

    /**
     * Yields the events after `after` as they arrive, up to `done`; yields all events when that number is unknown. Ends
     * when `signal` fires.
     */
    async *follow(after: number, signal: AbortSignal): AsyncGenerator<StoredEvent, void, undefined> {
      let seen = after > last ? 0 : after;
      for (;;) {
        // Numbers have no gaps. A number before the first one belonged to events that were compacted, so the follower
        // begins anew.
        const next = events[Math.max(0, seen + 1 - (events[0]?.seq ?? 1))];
        if (next) {
          seen = next.seq;
          yield next;
          continue;
        }
        if (signal.aborted || isOver) return;
        await orAborted(changed.promise, signal).catch(() => {});
      }
    },
  };
};

export type AnswerLog = ReturnType<typeof createAnswerLog>;
