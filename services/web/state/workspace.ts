import type { Approval, Chat, Model } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import { chosenModel, ownKeyFor } from './chosen-model.ts';
import type { Connection } from './connection.ts';
import { createConversation } from './conversation.ts';
import { newId } from './new-id.ts';
import { createNotebook } from './notebook.ts';
import { createStore } from './store.ts';
import { createUploads } from './uploads.ts';

/** The options of questions: the model, and whether code waits for approval. */
export interface QuestionOptions {
  model: string | null;
  approval: Approval;
}

/** The owner of the workspaces: it has the connection and the models, and is notified of new and changed chats. */
export interface WorkspaceKeeper {
  connection: Connection;
  models: () => readonly Model[];
  onCreated: (chat: Chat) => void;
  onChange: () => void;
}

/**
 * One chat with everything that belongs to it: its conversation, its cells, its files. Without an id, the chat is
 * created at its first use.
 */
export const createWorkspace = (
  client: AgentClient,
  id: string | null,
  { connection, models, onCreated, onChange }: WorkspaceKeeper,
) => {
  const life = new AbortController();
  const chat = createStore<Chat | null>(null);
  const questionOptions = createStore<QuestionOptions>({ model: null, approval: 'never' });
  const text = createStore('');
  let creating: Promise<string> | undefined = id === null ? undefined : Promise.resolve(id);

  const create = async (): Promise<string> => {
    const { model, approval } = questionOptions.get();
    const created = await client.chats.create({ approval, ...(model !== null && { model }) });
    chat.set(() => created);
    notebook.belongTo(created.id);
    onCreated(created);
    return created.id;
  };

  /** The id of the chat; a failed creation is retried the next time. */
  const ensureChat = (): Promise<string> => {
    creating ??= create().catch((error: unknown) => {
      creating = undefined;
      throw error;
    });
    return creating;
  };

  const conversation = createConversation({
    client,
    connection,
    isNew: id === null,
    onChange: () => {
      onChange();
      void refresh();
    },
    signal: life.signal,
  });
  const uploads = createUploads(client, ensureChat);
  const notebook = createNotebook({
    client,
    connection,
    chat: id,
    ensureChat,
    onDeleted: conversation.readAgain,
    signal: life.signal,
  });

  const refresh = async (): Promise<void> => {
    const known = await creating;
    // A failure costs only the title.
    if (known !== undefined)
      await client.chats.read(known).then(
        (now) => chat.set(() => now),
        () => {},
      );
  };

  const open = async (): Promise<void> => {
    if (id === null) return;
    try {
      const found = await client.chats.read(id);
      chat.set(() => found);
      questionOptions.set(() => ({ model: found.model, approval: found.approval }));
      await conversation.open(id);
    } catch (error) {
      conversation.fail(error);
    }
  };

  return {
    key: newId(),
    chat,
    questionOptions,
    text,
    conversation,
    uploads,
    notebook,
    ensureChat,

    open,

    /** Applies from now on; an existing chat stores it. */
    async choose(change: Partial<QuestionOptions>): Promise<void> {
      questionOptions.set((was) => ({ ...was, ...change }));
      const known = await creating;
      if (known === undefined) return;
      await client.chats.update(known, change).then(
        (now) => chat.set(() => now),
        (error: unknown) => conversation.fail(error),
      );
    },

    /** Call this when the reader comes to the chat or back to it, and without `isBack` from time to time. */
    async freshen({ isBack = false } = {}): Promise<void> {
      const known = id ?? chat.get()?.id;
      if (known === undefined) return;
      const { isLoading, fault } = conversation.store.get();
      if (isLoading && fault !== null) await open();
      else await (isBack ? conversation.catchUp(known) : conversation.freshen(known));
    },

    /** Sends the text of the composer with the uploaded files. If that fails, the text is put back. */
    async ask(): Promise<void> {
      const { isLoading, isAnswering } = conversation.store.get();
      const content = text.get().trim();
      const sent = uploads.store.get();
      const files = sent.flatMap(({ done }) => (done === null ? [] : [done]));
      if (isLoading || isAnswering || (content === '' && files.length === 0)) return;
      const { model: chosen, approval } = questionOptions.get();
      const model = chosenModel(models(), chosen);
      const paths = files.map(({ path }) => path);
      const question = { content, approval, files: paths, ...(model !== undefined && { model: model.id }) };
      // Taken before anything is awaited: nothing is sent twice, and what the reader writes meanwhile stays.
      text.set(() => '');
      uploads.clear();
      const hasArrived = await conversation.ask(ensureChat(), question, { files, modelKey: ownKeyFor(model) });
      if (hasArrived) return;
      text.set((newer) => [content, newer].filter((part) => part !== '').join('\n\n'));
      uploads.restore(sent);
    },

    /** Nobody looks at it any more; the answer continues at the agent. */
    close: () => life.abort(new Error('closed')),
  };
};

export type Workspace = ReturnType<typeof createWorkspace>;
