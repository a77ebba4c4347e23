import type { Context } from 'hono';
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
import { resumeAfter, streamEvents, streamFormat } from '../../../http/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Answers } from '../../chats/answers.ts';
import type { Endpoints } from '../endpoints.ts';
import type { Env } from '../env.ts';
import { chatParams } from './chats.ts';

const params = chatParams.extend({ message: z.string().max(64) });
const tag = 'Messages';
const eventTypes = { 'application/x-ndjson': answerEventSchema, 'text/event-stream': answerEventSchema };

/** `/v1/chats/{chat}/messages`: questions, and answers as they are made. */
export const addMessageRoutes = ({ add }: Endpoints, answers: Answers, stopping: AbortSignal): void => {
  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/messages',
      summary: 'Ask; wait for the answer, or stream its events. It is made even when nobody reads it',
      tag,
      params: chatParams,
      body: createMessageSchema,
      bounds: largeJson,
      responses: {
        200: {
          description: 'The whole answer, or its events by Accept. Content-Location tells where it can be read again.',
          types: { 'application/json': messageSchema, ...eventTypes },
        },
      },
    },
    async ({ c, owner, params, body }) => {
      const leave = new AbortController();
      const modelKey = c.req.header('x-model-key') || undefined;
      const { message, events } = await answers.ask(owner, params.chat, { ...body, modelKey }, leave.signal);
      c.header('Content-Location', `/v1/chats/${params.chat}/messages/${message}`);
      const format = streamFormat(c);
      if (format) return streamEvents(c, { format, events, leave, stopping, onError: toLog(c, leave) });
      for await (const _ of events);
      return c.json(await answers.read(owner, params.chat, message));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/messages',
      summary: 'List questions and answers, the oldest first',
      tag,
      params: chatParams,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of them.', schema: messagePageSchema } },
    },
    async ({ c, owner, params, query }) => c.json(await answers.list(owner, params.chat, query)),
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/messages/{message}',
      summary: 'Read a question, or an answer with what there is of it',
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
      summary: 'Stream the events of an answer from any point; goes on live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: {
          description: 'Its events; NDJSON unless Accept asks for SSE. A start says that all is told anew.',
          types: eventTypes,
        },
        204: { description: 'It has ended and nothing comes after this.' },
      },
    },
    async ({ c, owner, params, query }) => {
      const leave = new AbortController();
      const after = resumeAfter(c, query.after);
      const events = await answers.follow(owner, params.chat, params.message, after, leave.signal);
      if (!events) return c.body(null, 204);
      const format = streamFormat(c) ?? 'ndjson';
      return streamEvents(c, { format, events, leave, stopping, onError: toLog(c, leave) });
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/stop',
      summary: 'Stop the answer that is being made; again, or without one, does nothing',
      tag,
      params: chatParams,
      responses: { 202: { description: 'It is being stopped; done tells how that went.' } },
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
      summary: 'Let code run that waits for approval, or decline it',
      tag,
      params: chatParams,
      body: approveSchema,
      responses: { 204: { description: 'It was told.' } },
    },
    async ({ c, owner, params, body }) => {
      await answers.decide(owner, params.chat, body);
      return c.body(null, 204);
    },
  );
};

/** A reader that leaves breaks its stream: that is nothing to warn of. */
const toLog = (c: Context<Env>, leave: AbortController) => (err: unknown) =>
  c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke');
