import { type AnswerEvent, type Approve, CodeBoxError, type Message, type PageQuery } from '#contract';
import { newId } from '../../postgres/id.ts';
import { createTurns } from '../../waiting/turns.ts';
import type { Catalog } from '../models/catalog.ts';
import type { LanguageModel, ModelMessage } from '../models/model.ts';
import type { ChatRow } from '../store/chats.ts';
import type { MessageStore } from '../store/messages.ts';
import { fileAt } from './answer-record.ts';
import type { Chats } from './chats.ts';
import type { Following } from './following.ts';
import type { Making } from './making.ts';
import type { Owner } from './owner.ts';
import { type Question, titleOf, toQuestion } from './question.ts';
import type { Telling } from './telling.ts';

export interface AnswersOptions {
  agent: string;
  leaseSeconds: number;
  chats: Pick<Chats, 'find'>;
  store: MessageStore;
  catalog: Pick<Catalog, 'open'>;
  making: Making;
  following: Following;
  telling: Telling;
}

/** An answer that has begun. It is made whether its events are read or not. */
export interface Asked {
  message: string;
  question: string;
  model: string;
  /** To be read once, up to `done`. */
  events: AsyncGenerator<AnswerEvent, void, undefined>;
}

/** Each message of a page may name many files. */
const turns = createTurns(20);

const never = new AbortController().signal;

/** Questions and their answers. */
export const createAnswers = (options: AnswersOptions) => {
  const { agent, leaseSeconds, chats, store, catalog, making, following, telling } = options;

  const find = async (owner: Owner, id: string, message: string) => {
    const chat = await chats.find(owner, id);
    const row = await store.find(chat.id, message);
    if (!row) throw new CodeBoxError('not_found', 'There is no such message.');
    return row;
  };

  const begin = async (chat: ChatRow, asked: Question, model: LanguageModel) => {
    const files = asked.files ?? [];
    const question = { id: newId('msg'), content: asked.content, files: files.map(fileAt) };
    const history: ModelMessage[] = [
      {
        role: 'user',
        content: toQuestion(
          asked.content,
          files.map((path) => ({ path, preview: null })),
        ),
      },
    ];
    const answer = { id: newId('msg'), model: model.id, history };
    const title = chat.title ?? titleOf(asked.content, files);
    await store.begin({ chat: chat.id, question, answer, title, agent, leaseSeconds });
    return { question: question.id, message: answer.id, title };
  };

  return {
    /**
     * Begins an answer and answers as soon as it has begun. Rejects with `conflict` while the chat has one that is being made, with
     * `invalid_request` for a model that there is not, or that has no key.
     */
    async ask(owner: Owner, id: string, asked: Question, signal: AbortSignal = never): Promise<Asked> {
      const chat = await chats.find(owner, id);
      const model = await catalog.open(asked.model ?? chat.model, asked.modelKey);
      const { question, message, title } = await begin(chat, asked, model);
      const start = { chat: chat.id, message, question, title, model: model.id };
      making.begin({ owner, chat, asked, model, start });
      return { message, question, model: model.id, events: following.follow(owner, chat.id, message, 0, signal) };
    },

    /** The events of an answer behind `after`; undefined when it has ended and nothing comes after that. */
    async follow(owner: Owner, id: string, message: string, after: number, signal: AbortSignal) {
      const row = await find(owner, id, message);
      if (row.role === 'user') throw new CodeBoxError('not_found', 'This message is a question: it has no events.');
      if (row.status !== 'running' && after > 0 && after === row.lastSeq) return undefined;
      return following.follow(owner, id, message, after, signal);
    },

    read: async (owner: Owner, id: string, message: string): Promise<Message> =>
      telling(owner, id).message(await find(owner, id, message)),

    /** The ids of all answers of the chat, the oldest first. */
    ids: async (owner: Owner, id: string): Promise<string[]> => await store.answers((await chats.find(owner, id)).id),

    /** A page of the chat, the oldest first. */
    async list(owner: Owner, id: string, query: PageQuery) {
      const chat = await chats.find(owner, id);
      const { items, nextCursor } = await store.list(chat.id, query);
      const tell = telling(owner, id);
      const messages: Message[] = [];
      for (const row of items) {
        await turns.next();
        messages.push(tell.message(row));
      }
      return { items: messages, nextCursor };
    },

    /** Asks for the end of the answer that is being made, if there is one. */
    async stop(owner: Owner, id: string): Promise<void> {
      const { running } = await chats.find(owner, id);
      if (running !== null && !making.stop(running)) await store.askToStop(running);
    },

    /** Lets code run that waits for it, or not. Throws `conflict` when it does not wait. */
    async decide(owner: Owner, id: string, { call, ...decision }: Approve): Promise<void> {
      const { running } = await chats.find(owner, id);
      const known = running === null ? undefined : making.decide(running, call, decision);
      if (running === null || known === false)
        throw new CodeBoxError('conflict', 'This call does not wait for approval.');
      if (known === undefined) await store.decide(running, { [call]: decision });
    },
  };
};

export type Answers = ReturnType<typeof createAnswers>;
