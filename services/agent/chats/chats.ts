import { type Chat, CodeBoxError, type CreateChat, type Page, type PageQuery, type UpdateChat } from '#contract';
import { idOf, newId } from '../../postgres/id.ts';
import type { ChatBoxes } from '../box/chat-boxes.ts';
import type { ChatRow, ChatStore } from '../store/chats.ts';
import type { Owner } from './owner.ts';

export interface ChatsOptions {
  store: ChatStore;
  boxes: ChatBoxes;
  /** Ends the answer that is being made, before the chat goes. */
  stop: (chat: ChatRow) => Promise<void>;
  /** Told that a chat is gone, so that its blobs can go too. */
  onRemove: () => void;
}

/** Conversations as their owners see them: what is another's is not there. */
export const createChats = ({ store, boxes, stop, onRemove }: ChatsOptions) => {
  const find = async (owner: Owner, id: string): Promise<ChatRow> => {
    const row = await store.find(owner, id);
    if (!row) throw new CodeBoxError('not_found', 'There is no such chat.');
    return row;
  };

  const add = (
    owner: Owner,
    id: string,
    { title, model, approval, template }: CreateChat,
    removeAfterSeconds?: number,
  ): Promise<ChatRow> => {
    const chat = { title: title ?? null, model: model ?? null, template: template ?? null };
    return store.add(owner, { id, approval: approval ?? 'never', ...chat }, removeAfterSeconds);
  };

  return {
    /** Throws `not_found`, also for one of somebody else. */
    find,

    create: async (owner: Owner, chat: CreateChat): Promise<Chat> => toChat(await add(owner, newId('chat'), chat)),

    /** One that goes by itself so long from now, whatever becomes of who made it; its box too. */
    createFor: async (owner: Owner, seconds: number): Promise<Chat> =>
      toChat(await add(owner, newId('chat'), {}, seconds)),

    /** Has it go by itself so long from now, with its box. */
    async removeLater(owner: Owner, id: string, seconds: number): Promise<void> {
      const removeAt = await store.removeLater(owner, id, seconds);
      if (removeAt) await boxes.endAt(owner, id, removeAt);
    },

    /** The owner's chat of a name that the owner has chosen; it is made when it is asked for first. */
    async named(owner: Owner, name: string): Promise<{ id: string; isNew: boolean }> {
      const id = idOf('chat', JSON.stringify([owner.tenant, owner.user, name]));
      if (await store.find(owner, id)) return { id, isNew: false };
      try {
        await add(owner, id, {});
        return { id, isNew: true };
      } catch (error) {
        // Another request may have been first.
        if (await store.find(owner, id)) return { id, isNew: false };
        throw error;
      }
    },

    read: async (owner: Owner, id: string): Promise<Chat> => toChat(await find(owner, id)),

    async list(owner: Owner, query: PageQuery): Promise<Page<Chat>> {
      const { items, nextCursor } = await store.list(owner, query);
      return { items: items.map(toChat), nextCursor };
    },

    async update(owner: Owner, id: string, { title, model, approval }: UpdateChat): Promise<Chat> {
      await find(owner, id);
      await store.update(id, {
        ...(title !== undefined && { title }),
        ...(model !== undefined && { model }),
        ...(approval !== undefined && { approval }),
      });
      return toChat(await find(owner, id));
    },

    /** Ends its answer and its box, then removes it with its messages; its blobs follow. Nothing when there is none. */
    async remove(owner: Owner, id: string): Promise<void> {
      const row = await store.find(owner, id);
      if (!row) return;
      await stop(row);
      // Before, so that what cannot be ended is asked for again; and after, for what began meanwhile.
      await boxes.end(owner, id);
      await store.remove(owner, id);
      await boxes.end(owner, id);
      onRemove();
    },

    /** Removes it with its box, unless something was asked in it. */
    async removeUnasked(owner: Owner, id: string): Promise<void> {
      if (!(await store.removeUnasked(owner, id))) return;
      await boxes.end(owner, id);
      onRemove();
    },
  };
};

export type Chats = ReturnType<typeof createChats>;

const toChat = (row: ChatRow): Chat => ({
  id: row.id,
  title: row.title,
  user: row.userId,
  model: row.model,
  approval: row.approval,
  box: row.boxId,
  running: row.running,
  tokens: { input: row.inputTokens, output: row.outputTokens },
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});
