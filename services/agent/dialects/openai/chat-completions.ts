import { z } from 'zod';
import type { AnswerEvent } from '#contract';
import { streamAs } from '../../../http/bodies/stream.ts';
import { longJson } from '../../../json/json-bounds.ts';
import { openAiErrorResponse, toOpenAiError } from '../../../openai/openai-error.ts';
import type { Endpoints } from '../../http/endpoints.ts';
import { originOf, ownerFor } from '../asker.ts';
import type { Turn, Turns } from '../turns.ts';
import { type Chunk, createCompletionChunks, toCompletion } from './completion-chunks.ts';
import { chatCompletionRequestSchema, readMessages } from './completion-request.ts';
import { answerError } from './openai-error.ts';
import { stoppingError } from './stopping.ts';

const tag = 'OpenAI';
const completionSchema = z.looseObject({ id: z.string(), object: z.literal('chat.completion') }).meta({
  id: 'ChatCompletion',
  description:
    "In OpenAI's form. `codebox` has the chat (pass it as session_id to continue), its files and its code with output.",
});
const chunkSchema = z.string().meta({ id: 'ChatCompletionChunks', description: 'chat.completion.chunk, then [DONE].' });

const frame = (value: unknown): string => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;

/** `POST /v1/chat/completions` for OpenAI's clients: each answer may run code in the box of its chat. */
export const addChatCompletionRoute = ({ add }: Pick<Endpoints, 'add'>, turns: Turns, stopping: AbortSignal): void =>
  add(
    {
      method: 'post',
      path: '/v1/chat/completions',
      summary: 'Create a chat completion that may run code',
      tag,
      body: chatCompletionRequestSchema,
      bounds: longJson,
      responses: {
        200: {
          description: 'The completion, or its chunks for stream: true.',
          types: { 'application/json': completionSchema, 'text/event-stream': chunkSchema },
        },
      },
    },
    async ({ c, owner, body }) => {
      const input = readMessages(body.messages);
      const leave = new AbortController();
      const turn = await turns.begin(ownerFor(c, owner, body.user), {
        input,
        session: body.session_id ?? body.metadata?.session_id ?? c.req.header('x-session-id'),
        keep: 'while-linked',
        model: body.model ?? undefined,
        modelKey: c.req.header('x-model-key'),
        signal: AbortSignal.any([leave.signal, c.req.raw.signal]),
      });
      const toChunks = createCompletionChunks({
        id: `chatcmpl-${turn.message}`,
        model: turn.model ?? '',
        chat: turn.isKept ? turn.chat : null,
        created: Math.floor(Date.now() / 1000),
        origin: originOf(c),
        includeUsage: body.stream_options?.include_usage ?? false,
      });
      if (turn.isKept) c.header('X-Session-Id', turn.chat);
      if (body.stream) {
        const onError = (err: unknown) =>
          c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke');
        const closing = frame(toOpenAiError(stoppingError()).body);
        const wire = { type: 'text/event-stream', encode: (text: string) => text, ping: ': ping\n\n', closing };
        return streamAs(c, wire, { events: frames(turn, toChunks), leave, stopping, onError });
      }
      const chunks: Chunk[] = [];
      for await (const event of turn.events) chunks.push(...toChunks(event));
      const completion = toCompletion(chunks, turn.outcome.tokens);
      if (completion) return c.json(completion);
      c.header('x-should-retry', 'false');
      return openAiErrorResponse(c, answerError(turn.outcome.error));
    },
  );

async function* frames(
  { events, outcome }: Turn,
  toChunks: (event: AnswerEvent) => Chunk[],
): AsyncGenerator<string, void, undefined> {
  for await (const event of events) for (const chunk of toChunks(event)) yield frame(chunk);
  if (outcome.status === 'error') yield frame(toOpenAiError(answerError(outcome.error)).body);
  else yield frame('[DONE]');
}
