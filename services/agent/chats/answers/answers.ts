import { type AnswerEvent, type Approve, CodeBoxError, type Message, type PageQuery } from '#contract';
import { newId } from '../../../postgres/id.ts';
import { createTurns } from '../../../waiting/turns.ts';
import type { Catalog } from '../../models/catalog.ts';
import type { LanguageModel, ModelMessage } from '../../models/model.ts';
import type { ChatRow } from '../../store/chats.ts';
import type { MessageStore } from '../../store/messages.ts';
import type { Chats } from '../chats.ts';
import type { Presenter } from '../messages/presenter.ts';
import type { Owner } from '../owner.ts';
import { fileAt } from './answer-record.ts';
import type { Following } from './following.ts';
import type { Generation } from './generation.ts';
import { type Question, titleOf, toQuestion } from './question.ts';

export interface AnswersOptions {
  agent: string;
  leaseSeconds: number;
  chats: Pick<Chats, 'find'>;
  store: MessageStore;
  catalog: Pick<Catalog, 'open'>;
  generation: Generation;
  following: Following;
  presenter: Presenter;
}

/** An answer that has begun. It is generated whether its events are read or not. */
export interface BegunAnswer {
  message: string;
  question: string;
  model: string;
  /** The events up to `done`, which can be read once. */
  events: AsyncGenerator<AnswerEvent, void, undefined>;
}

/** Limits how many pages are rendered at once, as each message of a page may name many files. */
const turns = createTurns(20);

const never = new AbortController().signal;

/** Questions and their answers. */
export const createAnswers = (options: AnswersOptions) => {
  const { agent, leaseSeconds, chats, store, catalog, generation, following, presenter } = options;

  const find = async (owner: Owner, id: string, message: string) => {
    const chat = await chats.find(owner, id);
    const row = await store.find(chat.id, message);
    if (!row) throw new CodeBoxError('not_found', 'There is no such message.');
    return row;
  };

  const begin = async (chat: ChatRow, request: Question, model: LanguageModel) => {
    const files = request.files ?? [];
    const question = { id: newId('msg'), content: request.content, files: files.map(fileAt) };
    const history: ModelMessage[] = [
      {
        role: 'user',
        content: toQuestion(
          request.content,
          files.map((path) => ({ path, preview: null })),
        ),
      },
    ];
    const answer = { id: newId('msg'), model: model.id, history };
    const title = chat.title ?? titleOf(request.content, files);
    await store.begin({ chat: chat.id, question, answer, title, agent, leaseSeconds });
    return { question: question.id, message: answer.id, title };
  };

  return {
    /**
     * Begins an answer and resolves as soon as it has begun. Rejects with `conflict` while another answer of the chat
     * is running, with `invalid_request` for a model that does not exist or that has no key.
     */
    async ask(owner: Owner, id: string, request: Question, signal: AbortSignal = never): Promise<BegunAnswer> {
      const chat = await chats.find(owner, id);
      const model = await catalog.open(request.model ?? chat.model, request.modelKey);
      const { question, message, title } = await begin(chat, request, model);
      const start = { chat: chat.id, message, question, title, model: model.id };
      generation.begin({ owner, chat, request, model, start });
      return { message, question, model: model.id, events: following.follow(owner, chat.id, message, 0, signal) };
    },

    /** The events of an answer after `after`; undefined when the answer has ended and nothing follows. */
    async follow(owner: Owner, id: string, message: string, after: number, signal: AbortSignal) {
      const row = await find(owner, id, message);
      if (row.role === 'user') throw new CodeBoxError('not_found', 'This message is a question: it has no events.');
      if (row.status !== 'running' && after > 0 && after === row.lastSeq) return undefined;
      return following.follow(owner, id, message, after, signal);
    },

    read: async (owner: Owner, id: string, message: string): Promise<Message> =>
      presenter(owner, id).message(await find(owner, id, message)),

    /** The ids of all answers of the chat, oldest first. */
    ids: async (owner: Owner, id: string): Promise<string[]> => await store.answers((await chats.find(owner, id)).id),

    /** A page of the chat's messages, oldest first. */
    async list(owner: Owner, id: string, query: PageQuery) {
      const chat = await chats.find(owner, id);
      const { items, nextCursor } = await store.list(chat.id, query);
      const present = presenter(owner, id);
      const messages: Message[] = [];
      for (const row of items) {
        await turns.next();
        messages.push(present.message(row));
      }
      return { items: messages, nextCursor };
    },

    /** Requests the end of the running answer, if there is one: of this one only, if one is given. */
    async stop(owner: Owner, id: string, message?: string): Promise<void> {
      const { running } = await chats.find(owner, id);
      if (running === null || (message !== undefined && message !== running)) return;
      if (!generation.stop(running)) await store.askToStop(running);
    },

    /** Approves or declines code that waits for approval. Throws `conflict` when it does not wait. */
    async decide(owner: Owner, id: string, { call, ...decision }: Approve): Promise<void> {
      const { running } = await chats.find(owner, id);
      const known = running === null ? undefined : generation.decide(running, call, decision);
      if (running === null || known === false)
        throw new CodeBoxError('conflict', 'This call does not wait for approval.');
      if (known === undefined) await store.decide(running, { [call]: decision });
    },
  };
};

export type Answers = ReturnType<typeof createAnswers>;
