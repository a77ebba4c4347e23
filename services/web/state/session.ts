import type { AgentInfo, Chat, Model } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import type { Connection } from './connection.ts';
import { faultText, isUnauthorized } from './fault.ts';
import { forgetCells } from './kept-cells.ts';
import { createStore } from './store.ts';
import { createWorkspace, type Workspace } from './workspace.ts';

export interface SessionState {
  phase: 'loading' | 'ready' | 'locked' | 'failed';
  info: AgentInfo | null;
  models: readonly Model[];
  chats: readonly Chat[];
  nextCursor: string | null;
  fault: string | null;
}

export interface SessionOptions {
  client: AgentClient;
  connection: Connection;
  /** Called with the ids of new chats. */
  onCreated: (chat: string) => void;
}

/** The state of one reader: chats, models, and the workspaces that were opened. */
export const createSession = ({ client, connection, onCreated }: SessionOptions) => {
  const store = createStore<SessionState>({
    phase: 'loading',
    info: null,
    models: [],
    chats: [],
    nextCursor: null,
    fault: null,
  });
  const change = (part: Partial<SessionState>) => store.set((was) => ({ ...was, ...part }));
  const workspaces = new Map<string, Workspace>();
  let fresh: Workspace | undefined;

  const guarded = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      if (isUnauthorized(error)) change({ phase: 'locked' });
      // A lost connection is reported separately.
      else if (!connection.isLost.get()) change({ fault: faultText(error) });
      return undefined;
    }
  };

  const readChats = () =>
    guarded(async () => {
      const { items, nextCursor } = await client.chats.list();
      store.set((was) => {
        const oldest = items.at(-1)?.createdAt ?? '';
        const known = new Set(items.map(({ id }) => id));
        // Later pages stay as they were read.
        const older =
          nextCursor === null ? [] : was.chats.filter(({ id, createdAt }) => createdAt <= oldest && !known.has(id));
        return {
          ...was,
          chats: [...items, ...older],
          nextCursor: older.length > 0 ? was.nextCursor : nextCursor,
        };
      });
    });

  const keeper = (of: () => Workspace | undefined) => ({
    connection,
    models: () => store.get().models,
    onCreated: (chat: Chat) => {
      const workspace = of();
      if (workspace !== undefined) workspaces.set(chat.id, workspace);
      if (workspace === fresh) fresh = undefined;
      onCreated(chat.id);
      void readChats();
    },
    onChange: () => void readChats(),
  });

  const replace = (chat: Chat) =>
    store.set((was) => ({ ...was, chats: was.chats.map((other) => (other.id === chat.id ? chat : other)) }));

  return {
    store,
    isLost: connection.isLost,

    async open(): Promise<void> {
      try {
        const [info, chats] = await Promise.all([client.info(), client.chats.list()]);
        change({ phase: 'ready', info, chats: chats.items, nextCursor: chats.nextCursor });
      } catch (error) {
        if (isUnauthorized(error)) change({ phase: 'locked' });
        else change({ phase: 'failed', fault: faultText(error) });
        return;
      }
      // Without the list of models the default one is used.
      await guarded(async () => change({ models: (await client.models()).data }));
    },

    /** The workspace of a chat, or of the new chat. */
    workspace(id: string | null): Workspace {
      const known = id === null ? fresh : workspaces.get(id);
      if (known !== undefined) return known;
      const workspace: Workspace = createWorkspace(
        client,
        id,
        keeper(() => workspace),
      );
      if (id === null) fresh = workspace;
      else workspaces.set(id, workspace);
      void workspace.open();
      return workspace;
    },

    more: () =>
      guarded(async () => {
        const { nextCursor } = store.get();
        if (nextCursor === null) return;
        const page = await client.chats.list(nextCursor);
        store.set((was) => ({ ...was, chats: [...was.chats, ...page.items], nextCursor: page.nextCursor }));
      }),

    rename: (id: string, title: string) =>
      guarded(async () => {
        const chat = await client.chats.update(id, { title });
        replace(chat);
        workspaces.get(id)?.chat.set(() => chat);
      }),

    remove: (id: string) =>
      guarded(async () => {
        await client.chats.delete(id);
        workspaces.get(id)?.close();
        workspaces.delete(id);
        forgetCells(id);
        store.set((was) => ({ ...was, chats: was.chats.filter((chat) => chat.id !== id) }));
      }),

    /** The reader leaves: nobody looks at the workspaces any more, and the code of the new chat is theirs. */
    close(): void {
      for (const workspace of [...workspaces.values(), ...(fresh ? [fresh] : [])]) workspace.close();
      forgetCells(null);
    },

    dismiss: () => change({ fault: null }),
  };
};

export type Session = ReturnType<typeof createSession>;
