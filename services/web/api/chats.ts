import {
  type Chat,
  type CreateChat,
  chatPageSchema,
  chatSchema,
  type Message,
  messagePageSchema,
  pathOf,
  type Transport,
  type UpdateChat,
} from '#contract';

/** The reader's chats. */
export const createChats = (transport: Transport) => ({
  /** Newest first; `cursor` continues after the last page. */
  list: (cursor?: string) => transport.json(chatPageSchema, { path: pathOf('chats'), query: { limit: 50, cursor } }),

  create: (chat: CreateChat): Promise<Chat> =>
    transport.json(chatSchema, { method: 'POST', path: pathOf('chats'), json: chat }),

  read: (chat: string): Promise<Chat> => transport.json(chatSchema, { path: pathOf('chats', chat) }),

  update: (chat: string, change: UpdateChat): Promise<Chat> =>
    transport.json(chatSchema, { method: 'PATCH', path: pathOf('chats', chat), json: change }),

  /** Deletes a chat with its box and its files. */
  delete: (chat: string): Promise<void> => transport.done({ method: 'DELETE', path: pathOf('chats', chat) }),

  /** Resolves with all messages, oldest first. */
  async messages(chat: string): Promise<Message[]> {
    const call = { path: pathOf('chats', chat, 'messages'), query: { limit: 200 } };
    return await Array.fromAsync(transport.items(messagePageSchema, call));
  },
});
