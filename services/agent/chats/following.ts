import { setTimeout as sleep } from 'node:timers/promises';
import type { AnswerEvent } from '#contract';
import type { MessageRow, MessageStore } from '../store/messages.ts';
import type { AnswerLog } from './answer-log.ts';
import type { Owner } from './owner.ts';
import { settled, toEvents } from './parts.ts';
import type { NewEvent, StoredEvent } from './stored-event.ts';
import type { Telling } from './telling.ts';

export interface FollowingOptions {
  store: Pick<MessageStore, 'find'>;
  /** The events of an answer that is made here, or was a moment ago. */
  liveLog: (message: string) => AnswerLog | undefined;
  telling: Telling;
}

const lookEveryMs = 1000;
/** Above all numbers that the agent gives which makes the answer: it knows none of these, and tells anew who comes with one. */
const firstRetold = 500_000_000;

/** Everything that is known of an answer, as events. */
const retold = (row: MessageRow): NewEvent[] => {
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

/** Another text whenever a step of an answer has begun or come to its end. */
const stepsOf = ({ parts }: MessageRow): string =>
  parts.map((part) => (part.type === 'code' ? `${part.call} ${part.state}` : part.type)).join('\n');

/** Numbered so that the last one has the number that it had. */
const numbered = (events: readonly NewEvent[], last: number): StoredEvent[] => {
  const before = Math.max(0, last - events.length);
  return events.map((event, index) => ({ ...event, seq: before + index + 1 }));
};

/** Answers as they are made, and again afterwards. */
export const createFollowing = ({ store, liveLog, telling }: FollowingOptions) => {
  /** One that another agent makes is told anew after each of its steps, and when it has ended. */
  async function* fromStore(chat: string, message: string, signal: AbortSignal): AsyncGenerator<StoredEvent> {
    let told = 0;
    let steps: string | undefined;
    for (;;) {
      const row = await store.find(chat, message);
      // It went with its chat.
      if (!row) return;
      const events = retold(row);
      if (row.status !== 'running')
        return yield* numbered(events, told === 0 ? (row.lastSeq ?? 0) : told + events.length);
      if (steps !== stepsOf(row)) {
        steps = stepsOf(row);
        told = Math.max(told, firstRetold) + events.length;
        yield* numbered(events, told);
      }
      await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
    }
  }

  return {
    /** The events behind `after` up to `done`. Begins anew with `start` where that number is not known any more. Ends when `signal` fires. */
    async *follow(
      owner: Owner,
      chat: string,
      message: string,
      after: number,
      signal: AbortSignal,
    ): AsyncGenerator<AnswerEvent, void, undefined> {
      const tell = telling(owner, chat);
      const log = liveLog(message);
      for await (const event of log ? log.follow(after, signal) : fromStore(chat, message, signal))
        yield tell.event(event);
    },
  };
};

export type Following = ReturnType<typeof createFollowing>;
