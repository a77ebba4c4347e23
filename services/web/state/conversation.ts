import type { AnswerEvent, Chat, CreateMessage } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import { applyEvent, type Entry, emptyAnswer, toEntry } from './entry.ts';
import { faultText } from './fault.ts';
import { createStore } from './store.ts';

/** Questions and answers of one chat. */
export interface ConversationState {
  entries: readonly Entry[];
  isLoading: boolean;
  /** Whether an answer is being made. */
  isAnswering: boolean;
  /** Why it could not be read, or asked. */
  fault: string | null;
}

const paceMs = 40;
const expiryMarginMs = 5 * 60_000;

/** When the first link of these messages stops working, in ms since 1970; Infinity without any. */
const firstExpiry = (entries: readonly Entry[]): number => {
  const links = entries.flatMap(({ files, parts }) => [
    ...files,
    ...parts.flatMap((part) => (part.type === 'code' ? [...part.images, ...part.files] : [])),
  ]);
  return Math.min(...links.map(({ expiresAt }) => Date.parse(expiresAt)));
};

/**
 * The conversation of a chat: it goes on in the background while another one is shown. `onChange` is told when the chat itself is
 * another: a title, a new answer.
 */
export const createConversation = (client: AgentClient, onChange: () => void) => {
  const store = createStore<ConversationState>(
    { entries: [], isLoading: false, isAnswering: false, fault: null },
    { paceMs },
  );
  const change = (part: Partial<ConversationState>) => store.set((was) => ({ ...was, ...part }));
  const changeLast = (to: (entry: Entry) => Entry) =>
    store.set((was) => ({
      ...was,
      entries: was.entries.map((entry, index) => (index === was.entries.length - 1 ? to(entry) : entry)),
    }));

  const take = async (events: AsyncIterable<AnswerEvent>) => {
    change({ isAnswering: true, fault: null });
    try {
      for await (const event of events) {
        changeLast((entry) => applyEvent(entry, event));
        if (event.type === 'start') onChange();
      }
    } catch (error) {
      changeLast((entry) => ({
        ...entry,
        status: 'error',
        error: entry.error ?? { code: 'unavailable', detail: faultText(error) },
      }));
    } finally {
      change({ isAnswering: false });
      onChange();
    }
  };

  return {
    store,

    /** Reads what there is, and follows the answer that is being made. */
    async open(chat: Chat, signal: AbortSignal): Promise<void> {
      change({ isLoading: true, fault: null });
      try {
        const messages = await client.chats.messages(chat.id);
        change({ entries: messages.map(toEntry), isLoading: false });
      } catch (error) {
        return change({ isLoading: false, fault: faultText(error) });
      }
      const last = store.get().entries.at(-1);
      if (last?.role === 'assistant' && last.status === 'running')
        await take(client.answers.follow(chat.id, last.id, signal));
    },

    /** Reads the messages again when links in them are about to expire: a page may stay open for days. */
    async freshen(chat: string): Promise<void> {
      const { entries, isAnswering } = store.get();
      if (isAnswering || firstExpiry(entries) - Date.now() > expiryMarginMs) return;
      const messages = await client.chats.messages(chat).catch(() => []);
      const isSame = store.get().entries === entries && messages.length === entries.length;
      if (isSame) change({ entries: messages.map(toEntry) });
    },

    async ask(
      chat: string,
      question: CreateMessage,
      { files, modelKey }: Pick<Entry, 'files'> & { modelKey: string | null },
      signal: AbortSignal,
    ): Promise<void> {
      const asked: Entry = {
        ...emptyAnswer(crypto.randomUUID(), null),
        role: 'user',
        status: 'ok',
        content: question.content ?? '',
        files,
      };
      store.set((was) => ({ ...was, entries: [...was.entries, asked, emptyAnswer('', question.model ?? null)] }));
      await take(client.answers.ask(chat, question, { modelKey, signal }));
    },

    async stop(chat: string): Promise<void> {
      await client.answers.stop(chat).catch((error: unknown) => change({ fault: faultText(error) }));
    },

    async decide(chat: string, call: string, approved: boolean): Promise<void> {
      await client.answers
        .approve(chat, { call, approved })
        .catch((error: unknown) => change({ fault: faultText(error) }));
    },

    fail: (error: unknown) => change({ fault: faultText(error), isLoading: false }),
  };
};

export type Conversation = ReturnType<typeof createConversation>;
