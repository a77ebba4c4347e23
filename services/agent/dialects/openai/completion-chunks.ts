import type { ChatCompletion, ChatCompletionChunk } from 'openai/resources/chat/completions';
import type { CompletionUsage } from 'openai/resources/completions';
import type { AnswerEvent, Attachment, Tokens } from '#contract';
import { createAnswerMarkdown } from '../answer-markdown.ts';
import { type CodeLogEntry, createCodeLog } from '../code-log.ts';
import { absolute } from '../links.ts';

/** Fields that a chat completion has in addition to OpenAI's. */
interface CodeboxExtension {
  /** The chat to pass as `session_id` to continue; null when the chat is not kept. */
  chat: string | null;
  /** How the answer ended. */
  status: string;
  files: Attachment[];
  code_log: CodeLogEntry[];
}

export type Chunk = ChatCompletionChunk & { codebox?: CodeboxExtension };
export type Completion = ChatCompletion & { codebox: CodeboxExtension };

export interface CompletionShape {
  id: string;
  model: string;
  /** Null when the chat is removed at the end. */
  chat: string | null;
  /** Unix time in seconds. */
  created: number;
  /** The origin of the links in the text. */
  origin: string;
  /** Whether a last chunk reports the tokens. */
  includeUsage: boolean;
}

/**
 * Converts the events of an answer to the chunks of a streamed chat completion; `error` and the `done` of a failed
 * answer yield none.
 */
export const createCompletionChunks = ({ id, model, chat, created, origin, includeUsage }: CompletionShape) => {
  const markdown = createAnswerMarkdown(origin);
  const log = createCodeLog();
  const envelope = { id, object: 'chat.completion.chunk' as const, created, model };
  const usageOf = (usage: CompletionUsage | null) => (includeUsage ? { usage } : {});

  const chunk = (
    delta: ChatCompletionChunk.Choice.Delta,
    finish: ChatCompletionChunk.Choice['finish_reason'] = null,
  ): Chunk => ({
    ...envelope,
    choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
    ...usageOf(null),
  });

  return (event: AnswerEvent): Chunk[] => {
    log.add(event);
    const text = markdown(event);
    const chunks = text === '' ? [] : [chunk({ content: text })];
    if (event.type === 'start') chunks.push(chunk({ role: 'assistant', content: '' }));
    if (event.type !== 'done' || event.status === 'error') return chunks;
    chunks.push({
      ...chunk({}, event.status === 'limit' ? 'length' : 'stop'),
      codebox: {
        chat,
        status: event.status,
        files: event.files.map((file) => ({ ...file, url: absolute(file.url, origin) })),
        code_log: log.entries(),
      },
    });
    if (includeUsage) chunks.push({ ...envelope, choices: [], ...usageOf(toUsage(event.tokens)) });
    return chunks;
  };
};

/** Joins the chunks of an answer to one completion. */
export const toCompletion = (chunks: readonly Chunk[], tokens: Tokens | null): Completion | undefined => {
  const last = chunks.find(({ codebox }) => codebox !== undefined);
  if (last?.codebox === undefined) return undefined;
  const content = chunks.map(({ choices: [choice] }) => choice?.delta.content ?? '').join('');
  return {
    id: last.id,
    object: 'chat.completion',
    created: last.created,
    model: last.model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: null },
        finish_reason: last.choices[0]?.finish_reason ?? 'stop',
        logprobs: null,
      },
    ],
    usage: toUsage(tokens),
    codebox: last.codebox,
  };
};

const toUsage = (tokens: Tokens | null): CompletionUsage => {
  const { input, output } = tokens ?? { input: 0, output: 0 };
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
};
