import { type Chat, CodeBoxError, type CreateChat, type Page, type PageQuery, type UpdateChat } from '#contract';
import { idOf, newId } from '../../postgres/id.ts';
import type { ChatBoxes } from '../box/chat-boxes.ts';
import type { ChatRow, ChatStore } from '../store/chats.ts';
import type { Owner } from './owner.ts';

export interface ChatsOptions {
  store: ChatStore;
  boxes: ChatBoxes;
  /** Ends the running answer, before the chat is removed. */
  stop: (chat: ChatRow) => Promise<void>;
  /** Called after a chat was removed, so that its blobs can be deleted. */
  onRemove: () => void;
}

/** Conversations of owners; other owners' chats are treated as missing. */
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
    /** Throws `not_found`, also for a chat of another owner. */
    find,

    create: async (owner: Owner, chat: CreateChat): Promise<Chat> => toChat(await add(owner, newId('chat'), chat)),

    /** Creates a chat that is removed after that time, with its box, whatever happens to its creator. */
    createFor: async (owner: Owner, seconds: number): Promise<Chat> =>
      toChat(await add(owner, newId('chat'), {}, seconds)),

    /** Schedules the removal of a chat and its box. */
    async removeLater(owner: Owner, id: string, seconds: number): Promise<void> {
      const removeAt = await store.removeLater(owner, id, seconds);
      if (removeAt) await boxes.endAt(owner, id, removeAt);
    },

    /** Resolves with the owner's chat of a name that the owner chose; the first request for it creates the chat. */
    async named(owner: Owner, name: string): Promise<{ id: string; isNew: boolean }> {
      const id = idOf('chat', JSON.stringify([owner.tenant, owner.user, name]));
      if (await store.find(owner, id)) return { id, isNew: false };
      try {
        await add(owner, id, {});
        return { id, isNew: true };
      } catch (error) {
        // Another request may have created it first.
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

    /**
     * Ends the running answer and the box, then removes the chat with its messages; its blobs follow. Does nothing when
     * there is no such chat.
     */
    async remove(owner: Owner, id: string): Promise<void> {
      const row = await store.find(owner, id);
      if (!row) return;
      await stop(row);
      // Before the removal, so that a failure here can be retried; and after it, for a box that was created meanwhile.
      await boxes.end(owner, id);
      await store.remove(owner, id);
      await boxes.end(owner, id);
      onRemove();
    },

    /** Removes the chat with its box, unless it has messages. */
    async removeEmpty(owner: Owner, id: string): Promise<void> {
      if (!(await store.removeEmpty(owner, id))) return;
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
