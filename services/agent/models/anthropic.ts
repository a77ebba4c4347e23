import type { Anthropic } from '@anthropic-ai/sdk';
import { hear } from './hearing.ts';
import {
  endlessCall,
  type LanguageModel,
  type ModelEvent,
  type ModelMessage,
  type ModelRequest,
  maxArgumentCharacters,
  type ToolCall,
} from './model.ts';

type Block = Anthropic.Messages.ContentBlockParam;
type Turn = { role: 'user' | 'assistant'; content: Block[] };

/** Enough for a long program in one reply, and within the limits of all these models. */
const maxTokens = 8192;

/** The address and key of Anthropic's API. */
export interface AnthropicServer {
  /** Default: Anthropic's own API. */
  url?: string | undefined;
  key: string;
}

/** Loads the SDK when a model is first used. The client does not retry: that is up to the loop. */
export const anthropicClient = async ({ url, key }: AnthropicServer): Promise<Anthropic> => {
  const { Anthropic } = await import('@anthropic-ai/sdk');
  return new Anthropic({
    apiKey: key,
    baseURL: url ?? 'https://api.anthropic.com',
    maxRetries: 0,
    logLevel: 'off',
  });
};

const toInput = (text: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // The API accepts objects only.
  }
  return { text };
};

const toBlocks = (message: ModelMessage): Block[] => {
  if (message.role === 'tool') {
    return [{ type: 'tool_result', tool_use_id: message.call, content: message.content || '(nothing)' }];
  }
  const text: Block[] = message.content.trim() === '' ? [] : [{ type: 'text', text: message.content }];
  if (message.role !== 'assistant') return text;
  const calls = message.calls.map(({ id, name, arguments: args }) => ({
    type: 'tool_use' as const,
    id,
    name,
    input: toInput(args),
  }));
  return [...text, ...calls];
};

/** Roles must alternate here, so consecutive messages of one role, such as results, become one turn. */
const toTurns = (messages: readonly ModelMessage[]): Turn[] => {
  const turns: Turn[] = [];
  for (const message of messages) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = toBlocks(message);
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else if (content.length > 0) turns.push({ role, content });
  }
  return turns;
};

const toTool = ({ name, description, parameters }: ModelRequest['tools'][number]): Anthropic.Messages.Tool => ({
  name,
  description,
  input_schema: { ...parameters, type: 'object' },
});

const toParams = (
  name: string,
  { messages, tools, mayCall }: ModelRequest,
): Anthropic.Messages.MessageCreateParamsStreaming => {
  const system = messages.flatMap((message) => (message.role === 'system' ? [message.content] : [])).join('\n\n');
  return {
    model: name,
    max_tokens: maxTokens,
    stream: true,
    messages: toTurns(messages),
    ...(system !== '' && { system }),
    // A conversation with calls in it is refused without its tools, so they are sent even when none may be called.
    ...(tools.length > 0 && { tools: tools.map(toTool), tool_choice: { type: mayCall ? 'auto' : 'none' } }),
  };
};

const reasons: Partial<Record<Anthropic.Messages.StopReason, Extract<ModelEvent, { type: 'end' }>['reason']>> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'refused',
};

async function* toEvents(
  events: AsyncIterable<Anthropic.Messages.RawMessageStreamEvent>,
): AsyncGenerator<ModelEvent, void, undefined> {
  const calls = new Map<number, ToolCall>();
  const tokens = { input: 0, output: 0 };
  let stop: Anthropic.Messages.StopReason | null = null;
  let isWhole = false;
  for await (const event of events) {
    switch (event.type) {
      case 'message_start': {
        const { usage } = event.message;
        tokens.input =
          (usage?.input_tokens ?? 0) +
          (usage?.cache_read_input_tokens ?? 0) +
          (usage?.cache_creation_input_tokens ?? 0);
        break;
      }
      case 'content_block_start': {
        const { content_block: block, index } = event;
        if (block.type === 'tool_use') calls.set(index, { id: block.id, name: block.name, arguments: '' });
        break;
      }
      case 'content_block_delta': {
        const call = calls.get(event.index);
        if (event.delta.type === 'text_delta') yield { type: 'text', text: event.delta.text };
        if (event.delta.type === 'input_json_delta' && call) call.arguments += event.delta.partial_json;
        if (call && call.arguments.length > maxArgumentCharacters) throw endlessCall();
        break;
      }
      case 'message_delta':
        stop = event.delta.stop_reason ?? stop;
        tokens.output = event.usage?.output_tokens ?? tokens.output;
        break;
      case 'message_stop':
        isWhole = true;
    }
  }
  if (tokens.input + tokens.output > 0) yield { type: 'tokens', ...tokens };
  if (!isWhole || stop === null) return;
  for (const call of calls.values()) yield { type: 'call', call: { ...call, arguments: call.arguments || '{}' } };
  yield { type: 'end', reason: reasons[stop] ?? (calls.size > 0 ? 'calls' : 'stop') };
}

interface AnthropicModel {
  id: string;
  /** Anthropic's own name of the model. */
  name: string;
  server: AnthropicServer;
  silenceSeconds: number;
}

/** A model behind Anthropic's messages API. */
export const createAnthropicModel = ({ id, name, server, silenceSeconds }: AnthropicModel): LanguageModel => {
  let client: Promise<Anthropic> | undefined;
  const open = async (request: ModelRequest, signal: AbortSignal) => {
    client ??= anthropicClient(server);
    return await (await client).messages.create(toParams(name, request), { signal });
  };
  return {
    id,
    takesTools: true,
    ask: (request) =>
      toEvents(hear({ id, key: server.key, silenceSeconds }, request, (signal) => open(request, signal))),
  };
};
