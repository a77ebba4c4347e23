import type { AnswerEvent, CreateMessage, Message } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import type { Connection } from './connection.ts';
import { applyEvent, type Entry, type EntryPart, emptyAnswer, toEntry, withGone } from './entry.ts';
import { isExpiring } from './expiry.ts';
import { faultText } from './fault.ts';
import { newId } from './new-id.ts';
import { createStore } from './store.ts';

/** Questions and answers of one chat. */
export interface ConversationState {
  entries: readonly Entry[];
  /** Whether the messages so far are still unknown. */
  isLoading: boolean;
  /** Whether an answer is being generated. */
  isAnswering: boolean;
  /** Why reading or asking failed. */
  fault: string | null;
}

const paceMs = 40;

/** The links in these messages. */
const linksIn = (entries: readonly Entry[]) =>
  entries.flatMap(({ files, parts }) => [
    ...files,
    ...parts.flatMap((part) => (part.type === 'code' ? [...part.images, ...part.files] : [])),
  ]);

/** Whether files that earlier messages link to may be gone since this part. */
const hasTakenFiles = (part: EntryPart): boolean =>
  part.type === 'code' ? part.deleted !== undefined : part.type === 'notice' && part.kind === 'continuity';

export interface ConversationOptions {
  client: AgentClient;
  connection: Connection;
  /** Whether there are no messages yet. */
  isNew: boolean;
  /** Called when the chat itself has changed: a title, a new answer. */
  onChange: () => void;
  signal: AbortSignal;
}

/** The conversation of a chat, which continues in the background while another one is shown. */
export const createConversation = ({ client, connection, isNew, onChange, signal }: ConversationOptions) => {
  const store = createStore<ConversationState>(
    { entries: [], isLoading: !isNew, isAnswering: false, fault: null },
    { paceMs },
  );
  const change = (part: Partial<ConversationState>) => store.set((was) => ({ ...was, ...part }));
  const changeLast = (to: (entry: Entry) => Entry) =>
    store.set((was) => ({
      ...was,
      entries: was.entries.map((entry, index) => (index === was.entries.length - 1 ? to(entry) : entry)),
    }));

  const markGone = (deleted: readonly string[]) =>
    store.set((was) => ({ ...was, entries: was.entries.map((entry) => withGone(entry, deleted)) }));

  /** Follows the last answer if it is running: it may be from before the page was loaded, or for another tab. */
  const followLast = async (chat: string): Promise<void> => {
    const last = store.get().entries.at(-1);
    if (last?.role === 'assistant' && last.status === 'running')
      await showAnswer(chat, () => client.answers.follow(chat, last.id, signal));
  };

  /** Reads the messages again, and shows them unless those here change meanwhile or are not `isWanted`. */
  const readAgain = async (
    chat: string,
    isWanted: (messages: readonly Message[]) => boolean = () => true,
  ): Promise<void> => {
    const { entries, isAnswering, isLoading } = store.get();
    if (isAnswering || isLoading) return;
    const messages = await client.chats.messages(chat).catch(() => []);
    if (store.get().entries !== entries || messages.length < entries.length || !isWanted(messages)) return;
    change({ entries: messages.map(toEntry) });
    void followLast(chat);
  };

  /** Shows what was asked in another tab meanwhile. Otherwise the links stay, so that pictures are not loaded again. */
  const catchUp = (chat: string): Promise<void> =>
    readAgain(chat, (messages) => {
      const { entries } = store.get();
      const isLonger = messages.length > entries.length;
      return isLonger || messages.at(-1)?.status !== entries.at(-1)?.status || isExpiring(linksIn(entries));
    });

  /** Whether the reader has stopped an answer before the agent had its question. */
  let isUnwanted = false;
  const stop = (chat: string): Promise<void> =>
    client.answers.stop(chat).catch((error: unknown) => change({ fault: faultText(error) }));

  /**
   * Applies the events of an answer to its end; when the connection is lost, it resumes once the agent is reachable.
   */
  const takeAll = async (chat: string, events: AsyncIterable<AnswerEvent>): Promise<void> => {
    try {
      for await (const event of events) {
        changeLast((entry) => applyEvent(entry, event));
        if (event.type === 'ran' && event.deleted) markGone(event.deleted);
        if (event.type === 'start') {
          onChange();
          if (isUnwanted) void stop(chat);
        }
      }
    } catch (error) {
      const last = store.get().entries.at(-1);
      if (!last?.id || !connection.isLost.get()) throw error;
      await connection.back(signal);
      await takeAll(chat, client.answers.follow(chat, last.id, signal));
    }
  };

  /**
   * Shows an answer as it arrives. Resolves with whether it has begun: a question that did not arrive is removed again.
   */
  const showAnswer = async (
    chat: string | Promise<string>,
    eventsOf: (chat: string) => AsyncIterable<AnswerEvent>,
  ): Promise<boolean> => {
    change({ isAnswering: true });
    try {
      const id = await chat;
      await takeAll(id, eventsOf(id));
    } catch (error) {
      const detail = faultText(error);
      if (store.get().entries.at(-1)?.id === '') {
        store.set((was) => ({ ...was, entries: was.entries.slice(0, -2), fault: `This was not sent: ${detail}` }));
        return false;
      }
      changeLast((entry) => ({
        ...entry,
        status: 'error',
        error: entry.error ?? { code: 'unavailable', detail },
      }));
    } finally {
      change({ isAnswering: false });
      onChange();
    }
    if (store.get().entries.at(-1)?.parts.some(hasTakenFiles)) await readAgain(await chat);
    return true;
  };

  return {
    store,

    /** Reads the messages, and follows the running answer. */
    async open(chat: string): Promise<void> {
      const messages = await client.chats.messages(chat);
      if (!store.get().isLoading) return;
      change({ entries: messages.map(toEntry), isLoading: false, fault: null });
      await followLast(chat);
    },

    /** Reads the messages again when links in them are about to expire: a page may stay open for days. */
    async freshen(chat: string): Promise<void> {
      if (isExpiring(linksIn(store.get().entries))) await readAgain(chat);
    },

    catchUp,

    /** Call this after files were deleted: any message may link to them. */
    readAgain,

    /** Shows the question at once, also while its chat is being created. Resolves with whether it has arrived. */
    async ask(
      chat: Promise<string>,
      question: CreateMessage,
      { files, modelKey }: Pick<Entry, 'files'> & { modelKey: string | null },
    ): Promise<boolean> {
      const own: Entry = {
        ...emptyAnswer(newId(), null),
        role: 'user',
        status: 'ok',
        content: question.content ?? '',
        files,
      };
      const answer = emptyAnswer('', question.model ?? null);
      store.set((was) => ({ ...was, entries: [...was.entries, own, answer], fault: null }));
      isUnwanted = false;
      const hasArrived = await showAnswer(chat, (id) => client.answers.ask(id, question, { modelKey, signal }));
      // It may have been refused because another tab has asked.
      if (!hasArrived) void chat.then(catchUp, () => {});
      return hasArrived;
    },

    async stop(chat: Promise<string>): Promise<void> {
      // The agent does not have the question yet: nothing runs that it could stop.
      if (store.get().entries.at(-1)?.id === '') isUnwanted = true;
      else await chat.then(stop);
    },

    async decide(chat: string, call: string, approved: boolean): Promise<void> {
      await client.answers
        .approve(chat, { call, approved })
        .catch((error: unknown) => change({ fault: faultText(error) }));
    },

    fail: (error: unknown) => change({ fault: faultText(error) }),
  };
};
