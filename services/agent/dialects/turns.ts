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
import type { Answers } from '../chats/answers.ts';
import type { Chats } from '../chats/chats.ts';
import type { Files } from '../chats/files.ts';
import type { Owner } from '../chats/owner.ts';
import type { ModelMessage } from '../models/model.ts';
import type { Asked, InlineFile } from './openai/content.ts';
import { createToldOnce } from './told-once.ts';

export interface TurnRequest {
  asked: Asked;
  /** A chat that is there. */
  chat?: string | undefined;
  /** The id of a chat, or any name: the owner's chat of that name. */
  session?: string | undefined;
  /**
   * What becomes of a chat that was made for this turn: it stays; it goes when the links into it have expired, at once when there
   * are none; it goes when `remove` is called.
   */
  keep: 'always' | 'while-linked' | 'until-removed';
  approval?: Approval;
  model: string | undefined;
  modelKey: string | undefined;
  /** Aborted when the caller leaves: the answer is stopped. */
  signal: AbortSignal;
}

/** How a turn has come out, filled in while its events are read. */
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
  /** Whether the chat is there for the caller to go on with. */
  isKept: boolean;
  /** Each thing once, up to `done`; to be read to the end. */
  events: AsyncGenerator<AnswerEvent, void, undefined>;
  outcome: TurnOutcome;
}

export interface TurnsOptions {
  chats: Chats;
  files: Files;
  answers: Answers;
  listModels: () => Promise<Model[]>;
  /** So long links are good. */
  linkSeconds: number;
  onError: (error: unknown) => void;
}

const chatId = /^chat-[a-z2-7]{26}$/;
const uploadMs = 60_000;
const noteMs = 2000;
/** Longer than any answer is in the making. */
const answerSeconds = 86_400;

/** Questions in the words of other APIs: a chat is found or made, files are put into its box, the answer is followed. */
export const createTurns = ({ chats, files, answers, listModels, linkSeconds, onError }: TurnsOptions) => {
  const find = async (owner: Owner, { chat, session, keep }: Pick<TurnRequest, 'chat' | 'session' | 'keep'>) => {
    const known = chat ?? (session !== undefined && chatId.test(session) ? session : undefined);
    if (known !== undefined) return { id: (await chats.find(owner, known)).id, isNew: false };
    if (session !== undefined) return await chats.named(owner, session);
    const made =
      keep === 'always' ? await chats.create(owner, {}) : await chats.createFor(owner, answerSeconds + linkSeconds);
    return { id: made.id, isNew: true };
  };

  const put = async (owner: Owner, chat: string, all: readonly InlineFile[]): Promise<void> => {
    for (const { name, bytes } of all)
      await files.put(owner, chat, name, Readable.from([bytes]), AbortSignal.timeout(uploadMs));
  };

  /** Clients of one provider leave its name out. */
  const modelOf = async (name: string | undefined): Promise<string | undefined> => {
    if (name === undefined || name.includes('/')) return name;
    return (await listModels()).find(({ id }) => id.endsWith(`/${name}`))?.id ?? name;
  };

  /** Its links go with it. What fails here is made up for by the end that the chat has had from its beginning, a day later. */
  const removeLater = async (owner: Owner, chat: string, outcome: TurnOutcome): Promise<void> => {
    const hasLinks = outcome.files.length > 0 || outcome.images.length > 0;
    // Its box is ended behind the answer; when its links end is written down before, unless the gateway does not answer.
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
    const once = createToldOnce();
    signal.addEventListener('abort', stop, { once: true });
    try {
      if (signal.aborted) stop();
      for await (const told of events) {
        const event = once(told);
        if (event === undefined) continue;
        if (event.type === 'image') outcome.images.push({ call: event.call, image: event.image });
        if (event.type === 'error') outcome.error = { code: event.code, detail: event.detail };
        if (event.type === 'done')
          Object.assign(outcome, { status: event.status, tokens: event.tokens, files: event.files });
        yield event;
      }
    } finally {
      signal.removeEventListener('abort', stop);
      await end();
    }
  }

  return {
    /** The owner's chat of that name. */
    chatOf: async (owner: Owner, session: string): Promise<string> =>
      (await find(owner, { session, keep: 'always' })).id,

    /** Begins an answer. What is refused is refused here, and leaves no chat; what fails later, the outcome tells. */
    async begin(owner: Owner, request: TurnRequest): Promise<Turn> {
      const { asked, signal } = request;
      const { id: chat, isNew } = await find(owner, request);
      const isKept = request.keep === 'always' || request.session !== undefined || request.chat !== undefined;
      try {
        await put(owner, chat, isNew ? [...asked.earlierFiles, ...asked.files] : asked.files);
        const { message, model, events } = await answers.ask(owner, chat, {
          content: asked.question,
          files: asked.files.map(({ name }) => name),
          model: await modelOf(request.model),
          modelKey: request.modelKey,
          approval: request.approval,
          notes: asked.notes,
          ...(isNew && { earlier: toMessages(asked.earlier) }),
        });
        const outcome: TurnOutcome = { status: 'running', tokens: null, error: broken, files: [], images: [] };
        const end = async () => {
          if (!isKept && request.keep === 'while-linked') await removeLater(owner, chat, outcome);
        };
        const stop = () => void answers.stop(owner, chat).catch(onError);
        return { chat, message, model, isKept, outcome, events: follow(events, outcome, signal, { stop, end }) };
      } catch (error) {
        // A chat that has a name may have been found by another request meanwhile, which goes on in it.
        if (isNew) await chats.removeUnasked(owner, chat);
        throw error;
      }
    },

    /** An answer as far as it has come, and the one before it in its chat. */
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

    stop: (owner: Owner, chat: string) => answers.stop(owner, chat),
    approve: (owner: Owner, chat: string, decision: Approve) => answers.decide(owner, chat, decision),
    remove: (owner: Owner, chat: string) => chats.remove(owner, chat),
  };
};

export type Turns = ReturnType<typeof createTurns>;

/** Of an answer whose end nobody has told. */
const broken = { code: 'internal', detail: 'The answer broke off.' };

const toMessages = (earlier: Asked['earlier']): ModelMessage[] =>
  earlier.map(({ role, content }) => (role === 'user' ? { role, content } : { role, content, calls: [] }));

async function* noEvents(): AsyncGenerator<AnswerEvent, void, undefined> {}
