import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AnswerEvent,
  type Approval,
  type Approve,
  type Attachment,
  hasCode,
  type Image,
  type Message,
  type Model,
  type Tokens,
} from '#contract';
import type { Answers } from '../chats/answers/answers.ts';
import type { Chats } from '../chats/chats.ts';
import type { Files } from '../chats/files/files.ts';
import { transfer } from '../chats/files/transfer.ts';
import type { Uploads } from '../chats/files/uploads.ts';
import type { Owner } from '../chats/owner.ts';
import type { ModelMessage } from '../models/model.ts';
import { createDeduplicator } from './deduplicator.ts';
import type { TurnFile, TurnInput } from './openai/content.ts';

export interface TurnRequest {
  input: TurnInput;
  /** An existing chat. */
  chat?: string | undefined;
  /** The id of a chat, or any name: the owner's chat of that name. */
  session?: string | undefined;
  /**
   * What happens to a chat that was created for this turn: it stays; it is removed when its links expire, or at once
   * when there are none; it is removed when `remove` is called.
   */
  keep: 'always' | 'while-linked' | 'until-removed';
  approval?: Approval;
  model: string | undefined;
  modelKey: string | undefined;
  /** Aborted when the caller leaves, which stops the answer. */
  signal: AbortSignal;
}

/** The outcome of a turn, filled in while its events are read. */
export interface TurnOutcome {
  status: Message['status'];
  tokens: Tokens | null;
  error: { code: string; detail: string };
  files: Attachment[];
  images: { call: string; image: Image }[];
}

export interface Turn {
  chat: string;
  message: string;
  model: string | null;
  /** Whether the caller can continue with the chat. */
  isKept: boolean;
  /** Each event once, up to `done`. Whoever stops to read them earlier stops the answer. */
  events: AsyncGenerator<AnswerEvent, void, undefined>;
  outcome: TurnOutcome;
}

export interface TurnsOptions {
  chats: Chats;
  files: Files;
  uploads: Pick<Uploads, 'open'>;
  answers: Answers;
  listModels: () => Promise<Model[]>;
  /** How long links are valid. */
  linkSeconds: number;
  onError: (error: unknown) => void;
}

const chatId = /^chat-[a-z2-7]{26}$/;
const noteMs = 2000;
/** Longer than any answer may take. */
const answerSeconds = 86_400;

/** Questions of other APIs: finds or creates a chat, uploads files to its box, and follows the answer. */
export const createTurns = ({ chats, files, uploads, answers, listModels, linkSeconds, onError }: TurnsOptions) => {
  const find = async (owner: Owner, { chat, session, keep }: Pick<TurnRequest, 'chat' | 'session' | 'keep'>) => {
    const known = chat ?? (session !== undefined && chatId.test(session) ? session : undefined);
    if (known !== undefined) return { id: (await chats.find(owner, known)).id, isNew: false };
    if (session !== undefined) return await chats.named(owner, session);
    const made =
      keep === 'always' ? await chats.create(owner, {}) : await chats.createFor(owner, answerSeconds + linkSeconds);
    return { id: made.id, isNew: true };
  };

  const put = async (owner: Owner, chat: string, all: readonly TurnFile[], signal: AbortSignal): Promise<void> => {
    for (const file of all) {
      const source = 'bytes' in file ? Readable.from([file.bytes]) : await uploads.open(file.upload, signal);
      await transfer(source, signal, (content, both) => files.put(owner, chat, file.name, content, both));
    }
  };

  /** Clients of a single provider leave its name out. */
  const modelOf = async (name: string | undefined): Promise<string | undefined> => {
    if (name === undefined || name.includes('/')) return name;
    return (await listModels()).find(({ id }) => id.endsWith(`/${name}`))?.id ?? name;
  };

  /**
   * Removes the chat together with its links. If this fails, the chat is removed a day later, by the expiry that it got
   * when it was created.
   */
  const removeLater = async (owner: Owner, chat: string, outcome: TurnOutcome): Promise<void> => {
    const hasLinks = outcome.files.length > 0 || outcome.images.length > 0;
    // The box is deleted after the response; the expiry for links is stored before it, unless the gateway does not
    // respond in time.
    if (!hasLinks) return void chats.remove(owner, chat).catch(onError);
    const over = new AbortController();
    const late = sleep(noteMs, undefined, { signal: over.signal }).catch(() => {});
    await Promise.race([chats.removeLater(owner, chat, linkSeconds).catch(onError), late]);
    over.abort();
  };

  async function* follow(
    events: AsyncIterable<AnswerEvent>,
    outcome: TurnOutcome,
    signal: AbortSignal,
    { stop, end }: { stop: () => void; end: () => Promise<void> },
  ): AsyncGenerator<AnswerEvent, void, undefined> {
    const once = createDeduplicator();
    let isOver = false;
    signal.addEventListener('abort', stop, { once: true });
    try {
      if (signal.aborted) stop();
      for await (const received of events) {
        const event = once(received);
        if (event === undefined) continue;
        if (event.type === 'image') outcome.images.push({ call: event.call, image: event.image });
        if (event.type === 'error') outcome.error = { code: event.code, detail: event.detail };
        if (event.type === 'done')
          Object.assign(outcome, { status: event.status, tokens: event.tokens, files: event.files });
        yield event;
      }
      isOver = true;
    } finally {
      signal.removeEventListener('abort', stop);
      // The reader failed or left early, and nobody else follows the answer.
      if (!isOver && !signal.aborted) stop();
      await end();
    }
  }

  return {
    /** The owner's chat of that name. */
    chatOf: async (owner: Owner, session: string): Promise<string> =>
      (await find(owner, { session, keep: 'always' })).id,

    /** Begins an answer. Refusals reject here and leave no chat; later failures are part of the outcome. */
    async begin(owner: Owner, request: TurnRequest): Promise<Turn> {
      const { input, signal } = request;
      const { id: chat, isNew } = await find(owner, request);
      const isKept = request.keep === 'always' || request.session !== undefined || request.chat !== undefined;
      try {
        await put(owner, chat, isNew ? [...input.earlierFiles, ...input.files] : input.files, signal);
        const { message, model, events } = await answers.ask(owner, chat, {
          content: input.question,
          files: input.files.map(({ name }) => name),
          model: await modelOf(request.model),
          modelKey: request.modelKey,
          approval: request.approval,
          notes: input.notes,
          ...(isNew && { earlier: toMessages(input.earlier) }),
        });
        const outcome: TurnOutcome = { status: 'running', tokens: null, error: broken, files: [], images: [] };
        const end = async () => {
          if (!isKept && request.keep === 'while-linked') await removeLater(owner, chat, outcome);
        };
        const stop = () => void answers.stop(owner, chat, message).catch(onError);
        return { chat, message, model, isKept, outcome, events: follow(events, outcome, signal, { stop, end }) };
      } catch (error) {
        // Another request may have found a chat by its name meanwhile, and continues in it.
        if (isNew) await chats.removeEmpty(owner, chat);
        throw error;
      }
    },

    /** An answer so far, and the one before it in its chat. */
    async read(owner: Owner, chat: string, message: string) {
      const { model, createdAt } = await answers.read(owner, chat, message);
      const ids = await answers.ids(owner, chat);
      const previous = ids[ids.indexOf(message) - 1] ?? null;
      const events = await answers.follow(owner, chat, message, 0, AbortSignal.abort());
      return { model, createdAt, previous, events: events ?? noEvents() };
    },

    /** The last answer of a chat; undefined when there is none, or no such chat. */
    async latest(owner: Owner, chat: string): Promise<string | undefined> {
      try {
        return (await answers.ids(owner, chat)).at(-1);
      } catch (error) {
        if (hasCode(error, 'not_found')) return undefined;
        throw error;
      }
    },

    stop: (owner: Owner, chat: string, message: string) => answers.stop(owner, chat, message),
    approve: (owner: Owner, chat: string, decision: Approve) => answers.decide(owner, chat, decision),
    remove: (owner: Owner, chat: string) => chats.remove(owner, chat),
  };
};

export type Turns = ReturnType<typeof createTurns>;

/** The error of an answer without an end. */
const broken = { code: 'internal', detail: 'The answer was interrupted.' };

const toMessages = (earlier: TurnInput['earlier']): ModelMessage[] =>
  earlier.map(({ role, content }) => (role === 'user' ? { role, content } : { role, content, calls: [] }));

async function* noEvents(): AsyncGenerator<AnswerEvent, void, undefined> {}
