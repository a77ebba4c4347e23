import { z } from 'zod';
import {
  afterQuerySchema,
  answerEventSchema,
  approveSchema,
  createMessageSchema,
  messagePageSchema,
  messageSchema,
  pageQuerySchema,
} from '#contract';
import { resumeAfter, streamFormat } from '../../../http/bodies/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Answers } from '../../chats/answers/answers.ts';
import type { Endpoints } from '../endpoints.ts';
import { sendEvents } from '../send-events.ts';
import { chatParams } from './chats.ts';

const params = chatParams.extend({ message: z.string().max(64) });
const tag = 'Messages';
const eventTypes = { 'application/x-ndjson': answerEventSchema, 'text/event-stream': answerEventSchema };

/** `/v1/chats/{chat}/messages`: questions and their answers, also while they are generated. */
export const addMessageRoutes = ({ add }: Endpoints, answers: Answers, stopping: AbortSignal): void => {
  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/messages',
      summary: 'Ask a question; wait for the answer, or stream its events. It is generated even when nobody reads it',
      tag,
      params: chatParams,
      body: createMessageSchema,
      bounds: largeJson,
      responses: {
        200: {
          description:
            'The whole answer, or its events, depending on Accept. Content-Location has the path where it can be read again.',
          types: { 'application/json': messageSchema, ...eventTypes },
        },
      },
    },
    async ({ c, owner, params, body }) => {
      const leave = new AbortController();
      const modelKey = c.req.header('x-model-key') || undefined;
      const { message, events } = await answers.ask(owner, params.chat, { ...body, modelKey }, leave.signal);
      c.header('Content-Location', `/v1/chats/${params.chat}/messages/${message}`);
      if (streamFormat(c)) return sendEvents(c, { events, leave, stopping });
      for await (const _ of events);
      return c.json(await answers.read(owner, params.chat, message));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/messages',
      summary: 'List questions and answers, oldest first',
      tag,
      params: chatParams,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of messages.', schema: messagePageSchema } },
    },
    async ({ c, owner, params, query }) => c.json(await answers.list(owner, params.chat, query)),
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/messages/{message}',
      summary: 'Read a question, or an answer so far',
      tag,
      params,
      responses: { 200: { description: 'The message.', schema: messageSchema } },
    },
    async ({ c, owner, params }) => c.json(await answers.read(owner, params.chat, params.message)),
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/messages/{message}/events',
      summary: 'Stream the events of an answer from any point, live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: {
          description:
            'The events; NDJSON unless Accept asks for SSE. A start event means that all events are sent anew.',
          types: eventTypes,
        },
        204: { description: 'The answer has ended and no events follow.' },
      },
    },
    async ({ c, owner, params, query }) => {
      const leave = new AbortController();
      const after = resumeAfter(c, query.after);
      const events = await answers.follow(owner, params.chat, params.message, after, leave.signal);
      if (!events) return c.body(null, 204);
      return sendEvents(c, { events, leave, stopping });
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/stop',
      summary: 'Stop the running answer; without one this has no effect',
      tag,
      params: chatParams,
      responses: { 202: { description: 'The answer is being stopped; the done event reports how it ended.' } },
    },
    async ({ c, owner, params }) => {
      await answers.stop(owner, params.chat);
      return c.body(null, 202);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/approvals',
      summary: 'Approve or decline code that waits for approval',
      tag,
      params: chatParams,
      body: approveSchema,
      responses: { 204: { description: 'The decision was recorded.' } },
    },
    async ({ c, owner, params, body }) => {
      await answers.decide(owner, params.chat, body);
      return c.body(null, 204);
    },
  );
};
