import type { Context } from 'hono';
import type { Response as OpenAiResponse, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import { streamAs } from '../../../http/bodies/stream.ts';
import { faulty } from '../../../http/faults/fault.ts';
import { longJson } from '../../../json/json-bounds.ts';
import { openAiErrorResponse, toOpenAiError } from '../../../openai/openai-error.ts';
import type { Uploads } from '../../chats/files/uploads.ts';
import type { Owner } from '../../chats/owner.ts';
import type { Endpoints } from '../../http/endpoints.ts';
import type { Env } from '../../http/env.ts';
import { originOf, ownerFor } from '../asker.ts';
import type { Turn, Turns } from '../turns.ts';
import { fromContainerId, fromResponseId, responseId } from './ids.ts';
import { answerError } from './openai-error.ts';
import { createResponseEvents } from './response-events.ts';
import { type ResponseRequest, readInput, responseRequestSchema, storedFilesIn } from './response-request.ts';
import { stoppingError } from './stopping.ts';

const tag = 'OpenAI';
const params = z.object({ response: z.string().max(64) });
const responseSchema = z.looseObject({ id: z.string(), object: z.literal('response') }).meta({
  id: 'Response',
  description:
    "In OpenAI's form: code_interpreter_call items with outputs, and messages that cite files of the container.",
});
const eventsSchema = z.string().meta({ id: 'ResponseEvents', description: 'response.created … response.completed.' });
const deletedSchema = z
  .object({ id: z.string(), object: z.literal('response.deleted'), deleted: z.literal(true) })
  .meta({ id: 'DeletedResponse' });

const frame = (event: Pick<ResponseStreamEvent, 'type'>): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

/** `/v1/responses` for OpenAI's clients that use the tool code_interpreter. A response is one answer of a chat. */
export const addResponseRoutes = (
  { add }: Pick<Endpoints, 'add'>,
  { turns, uploads, stopping }: { turns: Turns; uploads: Pick<Uploads, 'named'>; stopping: AbortSignal },
): void => {
  add(
    {
      method: 'post',
      path: '/v1/responses',
      summary: 'Create a response that may run code',
      tag,
      body: responseRequestSchema,
      bounds: longJson,
      responses: {
        200: {
          description: 'The response, or its events for stream: true.',
          types: { 'application/json': responseSchema, 'text/event-stream': eventsSchema },
        },
      },
    },
    async ({ c, owner, body }) => {
      const turnInput = readInput(body, await uploads.named(owner, storedFilesIn(body)));
      const asker = ownerFor(c, owner, body.user);
      const leave = new AbortController();
      const turn = await turns.begin(asker, {
        input: turnInput,
        chat: await chatOf(turns, asker, body),
        keep: body.store === false ? 'while-linked' : 'always',
        model: body.model ?? undefined,
        modelKey: c.req.header('x-model-key'),
        signal: AbortSignal.any([leave.signal, c.req.raw.signal]),
      });
      const rendered = createResponseEvents(
        {
          id: responseId(turn.chat, turn.message),
          chat: turn.chat,
          model: turn.model ?? '',
          createdAt: Math.floor(Date.now() / 1000),
          instructions: body.instructions ?? null,
          metadata: body.metadata ?? {},
          previous: body.previous_response_id ?? null,
          isStored: turn.isKept,
        },
        originOf(c),
      );
      if (body.stream) {
        const onError = (err: unknown) =>
          c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke');
        const { message, code, param } = toOpenAiError(stoppingError()).body.error;
        const closing = frame({ type: 'error', message, code, param } as Pick<ResponseStreamEvent, 'type'>);
        const wire = { type: 'text/event-stream', encode: (text: string) => text, ping: ': ping\n\n', closing };
        return streamAs(c, wire, { events: frames(turn, rendered), leave, stopping, onError });
      }
      for await (const event of turn.events) rendered.next(event);
      if (turn.outcome.status !== 'error') return c.json(rendered.response());
      c.header('x-should-retry', 'false');
      return openAiErrorResponse(c, answerError(turn.outcome.error));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/responses/{response}',
      summary: 'Read a stored response',
      tag,
      params,
      responses: { 200: { description: 'The response so far.', schema: responseSchema } },
    },
    async ({ c, owner, params }) => c.json(await readResponse(turns, c, owner, params.response)),
  );

  add(
    {
      method: 'post',
      path: '/v1/responses/{response}/cancel',
      summary: 'Cancel a running response',
      tag,
      params,
      responses: { 200: { description: 'The response was stopped, or had ended before.', schema: responseSchema } },
    },
    async ({ c, owner, params }) => {
      const { chat, message } = named(params.response);
      await turns.stop(owner, chat, message);
      return c.json(await readResponse(turns, c, owner, params.response));
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/responses/{response}',
      summary: 'Delete the chat of a response, with its box and all its other responses',
      tag,
      params,
      responses: { 200: { description: 'It was deleted.', schema: deletedSchema } },
    },
    async ({ c, owner, params }) => {
      const { chat, message } = named(params.response);
      if ((await turns.latest(owner, chat)) !== message) {
        throw new CodeBoxError(
          'conflict',
          'Only the latest response of a chat can be deleted, as that deletes the chat.',
        );
      }
      await turns.remove(owner, chat);
      return c.json({ id: params.response, object: 'response.deleted', deleted: true });
    },
  );
};

const named = (response: string): { chat: string; message: string } => {
  const found = fromResponseId(response);
  if (!found) throw new CodeBoxError('not_found', 'There is no such response.');
  return found;
};

/** The chat that a request continues; undefined for a new one. */
const chatOf = async (turns: Turns, owner: Owner, body: ResponseRequest): Promise<string | undefined> => {
  const pointer = '/previous_response_id';
  if (body.previous_response_id) {
    const previous = fromResponseId(body.previous_response_id);
    const latest = previous && (await turns.latest(owner, previous.chat));
    if (!latest) throw faulty([{ pointer, detail: 'is not an existing response' }]);
    if (latest !== previous.message) {
      throw faulty([{ pointer, detail: 'is not the latest response of its chat: a chat cannot branch' }]);
    }
    return previous.chat;
  }
  const container = body.tools?.[0]?.container;
  if (typeof container !== 'string') return undefined;
  const chat = fromContainerId(container);
  if (chat) return chat;
  throw faulty([{ pointer: '/tools/0/container', detail: 'is not an existing container' }]);
};

async function* frames(
  { events }: Turn,
  rendered: ReturnType<typeof createResponseEvents>,
): AsyncGenerator<string, void, undefined> {
  for await (const event of events) for (const next of rendered.next(event)) yield frame(next);
}

const readResponse = async (turns: Turns, c: Context<Env>, owner: Owner, id: string): Promise<OpenAiResponse> => {
  const { chat, message } = named(id);
  const { model, createdAt, previous, events } = await turns.read(owner, chat, message);
  const rendered = createResponseEvents(
    {
      id,
      chat,
      model: model ?? '',
      createdAt: Math.floor(Date.parse(createdAt) / 1000),
      instructions: null,
      metadata: {},
      previous: previous && responseId(chat, previous),
      isStored: true,
    },
    originOf(c),
  );
  for await (const event of events) rendered.next(event);
  return rendered.response();
};
