import { setTimeout as sleep } from 'node:timers/promises';
import type { AnswerEvent } from '#contract';
import type { MessageRow, MessageStore } from '../../store/messages.ts';
import { settled, toEvents } from '../messages/parts.ts';
import type { Presenter } from '../messages/presenter.ts';
import type { NewEvent, StoredEvent } from '../messages/stored-event.ts';
import type { Owner } from '../owner.ts';
import type { AnswerLog } from './answer-log.ts';

export interface FollowingOptions {
  store: Pick<MessageStore, 'find'>;
  /** The events of an answer that this agent generates, or generated a moment ago. */
  liveLog: (message: string) => AnswerLog | undefined;
  presenter: Presenter;
}

const lookEveryMs = 1000;
/**
 * Larger than any number that the generating agent assigns: that agent does not know such a number and starts anew for
 * a reader that comes with one.
 */
const firstStored = 500_000_000;

/** The stored state of an answer, as events. */
const storedEvents = (row: MessageRow): NewEvent[] => {
  const { chatId, id, questionId, model, status, content, files, rounds, error } = row;
  const tokens = row.inputTokens === null ? null : { input: row.inputTokens, output: row.outputTokens ?? 0 };
  const events: NewEvent[] = [
    { type: 'start', chat: chatId, message: id, question: questionId ?? '', title: null, model },
    ...toEvents(status === 'running' ? row.parts : settled(row.parts)),
  ];
  if (status === 'running') return events;
  if (error) events.push({ type: 'error', ...error });
  return [...events, { type: 'done', status, content, files, tokens, rounds: rounds ?? 0 }];
};

/** A text that changes whenever a step of an answer begins or ends. */
const stepsOf = ({ parts }: MessageRow): string =>
  parts.map((part) => (part.type === 'code' ? `${part.call} ${part.state}` : part.type)).join('\n');

/** Numbers the events so that the last one gets the number that it originally had. */
const numbered = (events: readonly NewEvent[], last: number): StoredEvent[] => {
  const before = Math.max(0, last - events.length);
  return events.map((event, index) => ({ ...event, seq: before + index + 1 }));
};

/** Streams answers, both while they are generated and afterwards. */
export const createFollowing = ({ store, liveLog, presenter }: FollowingOptions) => {
  /** An answer that another agent generates is sent anew after each of its steps, and when it has ended. */
  async function* fromStore(chat: string, message: string, signal: AbortSignal): AsyncGenerator<StoredEvent> {
    let sent = 0;
    let steps: string | undefined;
    for (;;) {
      const row = await store.find(chat, message);
      // The answer was removed with its chat.
      if (!row) return;
      const events = storedEvents(row);
      if (row.status !== 'running')
        return yield* numbered(events, sent === 0 ? (row.lastSeq ?? 0) : sent + events.length);
      if (steps !== stepsOf(row)) {
        steps = stepsOf(row);
        sent = Math.max(sent, firstStored) + events.length;
        yield* numbered(events, sent);
      }
      await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
    }
  }

  return {
    /**
     * Yields the events after `after` up to `done`. Begins anew with `start` when that number is no longer known. Ends
     * when `signal` fires.
     */
    async *follow(
      owner: Owner,
      chat: string,
      message: string,
      after: number,
      signal: AbortSignal,
    ): AsyncGenerator<AnswerEvent, void, undefined> {
      const present = presenter(owner, chat);
      const log = liveLog(message);
      for await (const event of log ? log.follow(after, signal) : fromStore(chat, message, signal))
        yield present.event(event);
    },
  };
};

export type Following = ReturnType<typeof createFollowing>;
