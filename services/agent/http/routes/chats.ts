import { z } from 'zod';
import { chatPageSchema, chatSchema, createChatSchema, pageQuerySchema, updateChatSchema } from '#contract';
import type { Chats } from '../../chats/chats.ts';
import type { Catalog } from '../../models/catalog.ts';
import type { Endpoints } from '../endpoints.ts';

export const chatParams = z.object({ chat: z.string().max(64) });
const tag = 'Chats';

/** `/v1/chats`: conversations, each with a box. */
export const addChatRoutes = ({ add }: Endpoints, chats: Chats, models: Pick<Catalog, 'check'>): void => {
  add(
    {
      method: 'post',
      path: '/v1/chats',
      summary: 'A new chat',
      tag,
      body: createChatSchema,
      responses: {
        201: { description: 'The chat was created; its box is created when it is needed.', schema: chatSchema },
      },
    },
    async ({ c, owner, body }) => {
      if (body.model !== undefined) await models.check(body.model);
      const chat = await chats.create(owner, body);
      c.header('Location', `/v1/chats/${chat.id}`);
      return c.json(chat, 201);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/chats',
      summary: 'List chats, newest first',
      tag,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of chats.', schema: chatPageSchema } },
    },
    async ({ c, owner, query }) => c.json(await chats.list(owner, query)),
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}',
      summary: 'Read a chat',
      tag,
      params: chatParams,
      responses: { 200: { description: 'The chat.', schema: chatSchema } },
    },
    async ({ c, owner, params }) => c.json(await chats.read(owner, params.chat)),
  );

  add(
    {
      method: 'patch',
      path: '/v1/chats/{chat}',
      summary: 'Rename a chat, or choose its model and whether code waits for approval',
      tag,
      params: chatParams,
      body: updateChatSchema,
      responses: { 200: { description: 'The updated chat.', schema: chatSchema } },
    },
    async ({ c, owner, params, body }) => {
      if (typeof body.model === 'string') await models.check(body.model);
      return c.json(await chats.update(owner, params.chat, body));
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/chats/{chat}',
      summary: 'Delete a chat with its messages, its box and its files; repeating it has no effect',
      tag,
      params: chatParams,
      responses: { 204: { description: 'The chat was deleted.' } },
    },
    async ({ c, owner, params }) => {
      await chats.remove(owner, params.chat);
      return c.body(null, 204);
    },
  );
};
