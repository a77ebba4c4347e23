import { orAborted } from '../../waiting/or-aborted.ts';
import type { NewEvent, StoredEvent } from './stored-event.ts';

/** What the events of one answer may take here before they are told in fewer pieces. */
const roomCharacters = 2_000_000;

/**
 * The events of an answer in the making, numbered, for any number of followers. When they become too many, `retell` gives what they
 * come to, and those take their place with the numbers behind: who follows is told anew, from `start` on.
 */
export const createAnswerLog = (retell: () => NewEvent[]) => {
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
      // What ends an answer is not in what it comes to; all else is by now.
      if (isEnd || size + JSON.stringify(event).length <= room) number(event);
      else {
        events = [];
        size = 0;
        for (const retold of retell()) number(retold);
        room = size + roomCharacters;
      }
      if (event.type === 'done') isOver = true;
      wake();
    },

    /** The number of the last event. */
    last: (): number => last,

    /** The events behind `after` as they come, up to `done`; all that is here for a number that is no more. Ends when `signal` fires. */
    async *follow(after: number, signal: AbortSignal): AsyncGenerator<StoredEvent, void, undefined> {
      let seen = after > last ? 0 : after;
      for (;;) {
        // The numbers are without gaps; one before the first means that what it was is told anew.
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
