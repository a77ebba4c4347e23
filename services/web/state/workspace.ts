import type { Approval, Chat, Model } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import { chosenModel, ownKeyFor } from './chosen-model.ts';
import type { Connection } from './connection.ts';
import { createConversation } from './conversation.ts';
import { createNotebook } from './notebook.ts';
import { createStore } from './store.ts';
import { createUploads } from './uploads.ts';

/** How a chat is asked: with which model, and whether its code waits for the reader. */
export interface Manner {
  model: string | null;
  approval: Approval;
}

/** Whoever keeps the workspaces: has the connection, knows the models, is told of a chat that came to be, and of one that has changed. */
export interface WorkspaceKeeper {
  connection: Connection;
  models: () => readonly Model[];
  onCreated: (chat: Chat) => void;
  onChange: () => void;
}

/** One chat with all that belongs to it: its conversation, its cells, its files. Without an id it is created at its first use. */
export const createWorkspace = (
  client: AgentClient,
  id: string | null,
  { connection, models, onCreated, onChange }: WorkspaceKeeper,
) => {
  const life = new AbortController();
  const chat = createStore<Chat | null>(null);
  const manner = createStore<Manner>({ model: null, approval: 'never' });
  const text = createStore('');
  let creating: Promise<string> | undefined = id === null ? undefined : Promise.resolve(id);

  const create = async (): Promise<string> => {
    const { model, approval } = manner.get();
    const created = await client.chats.create({ approval, ...(model !== null && { model }) });
    chat.set(() => created);
    onCreated(created);
    return created.id;
  };

  /** The id of the chat; one that could not be created is tried again the next time. */
  const ensureChat = (): Promise<string> => {
    creating ??= create().catch((error: unknown) => {
      creating = undefined;
      throw error;
    });
    return creating;
  };

  const conversation = createConversation(client, connection, () => {
    onChange();
    void refresh();
  });
  const uploads = createUploads(client, ensureChat);

  const refresh = async (): Promise<void> => {
    const known = await creating;
    // Its title is all that would be missed.
    if (known !== undefined)
      await client.chats.read(known).then(
        (now) => chat.set(() => now),
        () => {},
      );
  };

  return {
    key: crypto.randomUUID(),
    chat,
    manner,
    text,
    conversation,
    uploads,
    notebook: createNotebook(client, id, ensureChat, conversation.readAgain),
    ensureChat,

    async open(): Promise<void> {
      if (id === null) return;
      try {
        const found = await client.chats.read(id);
        chat.set(() => found);
        manner.set(() => ({ model: found.model, approval: found.approval }));
        await conversation.open(found, life.signal);
      } catch (error) {
        conversation.fail(error);
      }
    },

    /** From now on; a chat that is there keeps it. */
    async choose(change: Partial<Manner>): Promise<void> {
      manner.set((was) => ({ ...was, ...change }));
      const known = await creating;
      if (known === undefined) return;
      await client.chats.update(known, change).then(
        (now) => chat.set(() => now),
        (error: unknown) => conversation.fail(error),
      );
    },

    /** To be called now and then while it is looked at. */
    async freshen(): Promise<void> {
      const known = await creating;
      if (known !== undefined) await conversation.freshen(known);
    },

    /** Asks what stands in the composer, with the files that came. What does not arrive stands there again. */
    async ask(): Promise<void> {
      const content = text.get().trim();
      const sent = uploads.store.get();
      const files = sent.flatMap(({ done }) => (done === null ? [] : [done]));
      if (content === '' && files.length === 0) return;
      const { model: chosen, approval } = manner.get();
      const model = chosenModel(models(), chosen);
      try {
        const to = await ensureChat();
        text.set(() => '');
        uploads.clear();
        const paths = files.map(({ path }) => path);
        const question = { content, approval, files: paths, ...(model !== undefined && { model: model.id }) };
        const hasArrived = await conversation.ask(to, question, { files, modelKey: ownKeyFor(model) }, life.signal);
        if (hasArrived) return;
        text.set((newer) => [content, newer].filter((part) => part !== '').join('\n\n'));
        uploads.restore(sent);
      } catch (error) {
        conversation.fail(error);
      }
    },

    /** Nobody looks at it any more; an answer goes on at the agent. */
    close: () => life.abort(new Error('closed')),
  };
};

export type Workspace = ReturnType<typeof createWorkspace>;
