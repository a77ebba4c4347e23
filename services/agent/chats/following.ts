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

/** Numbered so that the last one has the number that it had. */
const numbered = (events: readonly NewEvent[], last: number): StoredEvent[] => {
  const before = Math.max(0, last - events.length);
  return events.map((event, index) => ({ ...event, seq: before + index + 1 }));
};

/** Answers as they are made, and again afterwards. */
export const createFollowing = ({ store, liveLog, telling }: FollowingOptions) => {
  /** One that another agent makes is told when it has ended; until then what it has. */
  async function* fromStore(chat: string, message: string, signal: AbortSignal): AsyncGenerator<StoredEvent> {
    let told = 0;
    for (let isFirst = true; ; isFirst = false) {
      const row = await store.find(chat, message);
      // It went with its chat.
      if (!row) return;
      if (row.status !== 'running') return yield* numbered(retold(row), Math.max(row.lastSeq ?? 0, told));
      if (isFirst) {
        const events = numbered(retold(row), 0);
        told = 2 * events.length;
        yield* events;
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
