import type { OpenAI } from 'openai';
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

type Chunk = OpenAI.Chat.Completions.ChatCompletionChunk;
type Params = OpenAI.Chat.Completions.ChatCompletionCreateParamsStreaming;

/** A server with OpenAI's chat completions; `azure` has its deployments in the paths. */
export interface OpenAiServer {
  /** Default: OpenAI's own API. */
  url?: string | undefined;
  key: string | undefined;
  azure?: { apiVersion: string } | undefined;
}

/** Loads the SDK when a model is first used. The client does not retry: that is up to the loop. */
export const openAiClient = async ({ url, key, azure }: OpenAiServer): Promise<OpenAI> => {
  const { OpenAI, AzureOpenAI } = await import('openai');
  // Self-hosted servers need no key, but the SDK insists on one.
  const common = { apiKey: key ?? 'none', maxRetries: 0, logLevel: 'off' } as const;
  if (azure) return new AzureOpenAI({ ...common, endpoint: url, apiVersion: azure.apiVersion });
  return new OpenAI({ ...common, baseURL: url ?? 'https://api.openai.com/v1', organization: null, project: null });
};

const toParam = (message: ModelMessage): OpenAI.Chat.Completions.ChatCompletionMessageParam => {
  switch (message.role) {
    case 'assistant': {
      const calls = message.calls.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function' as const,
        function: { name, arguments: text },
      }));
      return { role: 'assistant', content: message.content || null, ...(calls.length > 0 && { tool_calls: calls }) };
    }
    case 'tool':
      return { role: 'tool', tool_call_id: message.call, content: message.content };
    default:
      return message;
  }
};

const toParams = (name: string, { messages, tools, mayCall }: ModelRequest, usage: boolean): Params => ({
  model: name,
  messages: messages.map(toParam),
  stream: true,
  ...(usage && { stream_options: { include_usage: true } }),
  ...(mayCall && tools.length > 0 && { tools: tools.map((tool) => ({ type: 'function', function: { ...tool } })) }),
});

/** Calls arrive in numbered pieces; some servers number all of them 0 but name each. */
const createCalls = () => {
  const calls: (ToolCall & { index: number })[] = [];
  return {
    add({ index = 0, id, function: part }: OpenAI.Chat.Completions.ChatCompletionChunk.Choice.Delta.ToolCall) {
      let call = calls.findLast((known) => known.index === index);
      if (call === undefined || (id && id !== call.id && part?.name)) {
        call = { index, id: id || `call_${crypto.randomUUID()}`, name: '', arguments: '' };
        calls.push(call);
      }
      if (part?.name && call.name !== part.name) call.name += part.name;
      call.arguments += part?.arguments ?? '';
      if (call.arguments.length > maxArgumentCharacters) throw endlessCall();
    },
    all: (): ToolCall[] => calls.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })),
  };
};

const endOf = (finish: string, hasCalls: boolean) => {
  if (finish === 'length') return 'length';
  if (finish === 'content_filter') return 'refused';
  return hasCalls ? 'calls' : 'stop';
};

async function* toEvents(chunks: AsyncIterable<Chunk>): AsyncGenerator<ModelEvent, void, undefined> {
  const calls = createCalls();
  let finish: string | null = null;
  let tokens: { input: number; output: number } | undefined;
  for await (const { choices, usage } of chunks) {
    if (usage) tokens = { input: usage.prompt_tokens ?? 0, output: usage.completion_tokens ?? 0 };
    const [choice] = choices ?? [];
    const text = choice?.delta?.content ?? choice?.delta?.refusal;
    if (text) yield { type: 'text', text };
    for (const part of choice?.delta?.tool_calls ?? []) calls.add(part);
    finish = choice?.finish_reason ?? finish;
  }
  if (tokens) yield { type: 'tokens', ...tokens };
  if (finish === null) return;
  const all = calls.all();
  for (const call of all) yield { type: 'call', call };
  yield { type: 'end', reason: endOf(finish, all.length > 0) };
}

interface OpenAiModel {
  id: string;
  /** The server's own name of the model. */
  name: string;
  server: OpenAiServer;
  silenceSeconds: number;
}

/**
 * A model behind OpenAI's chat completions, whoever serves them: OpenAI, Azure, Ollama, vLLM, llama.cpp, OpenRouter.
 */
export const createOpenAiModel = ({ id, name, server, silenceSeconds }: OpenAiModel): LanguageModel => {
  let client: Promise<OpenAI> | undefined;
  let reportsUsage = true;

  const open = async (request: ModelRequest, signal: AbortSignal): Promise<AsyncIterable<Chunk>> => {
    client ??= openAiClient(server);
    const { chat } = await client;
    try {
      return await chat.completions.create(toParams(name, request, reportsUsage), { signal });
    } catch (thrown) {
      if (!reportsUsage || !(thrown instanceof Error) || !/stream_options|include_usage/.test(thrown.message))
        throw thrown;
      reportsUsage = false;
      return await chat.completions.create(toParams(name, request, false), { signal });
    }
  };

  return {
    id,
    takesTools: true,
    ask: (request) =>
      toEvents(hear({ id, key: server.key, silenceSeconds }, request, (signal) => open(request, signal))),
  };
};
