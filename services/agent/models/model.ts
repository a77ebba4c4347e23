import { CodeBoxError } from '#contract';

/** A tool that a model may call; `parameters` is a JSON Schema of an object. */
export interface ToolSpec {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

/** A call as the model wrote it: its arguments are text that may be no JSON at all. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** A call that is longer comes from a model that has lost its way. */
export const maxArgumentCharacters = 1_000_000;

export const endlessCall = () => new CodeBoxError('bad_gateway', 'The model does not come to the end of a call.');

/** One message of a conversation, in no provider's wire. */
export type ModelMessage =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string; calls: ToolCall[] }
  | { role: 'tool'; call: string; content: string };

export interface ModelRequest {
  messages: readonly ModelMessage[];
  tools: readonly ToolSpec[];
  /** Whether it may call them now; otherwise it is to answer in words. */
  mayCall: boolean;
  signal: AbortSignal;
}

/** What a model says, as it says it. A call comes whole. `end` is the last one; a stream without it was cut. */
export type ModelEvent =
  | { type: 'text'; text: string }
  | { type: 'call'; call: ToolCall }
  | { type: 'tokens'; input: number; output: number }
  | { type: 'end'; reason: 'stop' | 'calls' | 'length' | 'refused' };

/**
 * The one port to language models. `ask` throws `CodeBoxError`: `unavailable` when the server cannot be reached, fails (5xx),
 * is overloaded or goes silent, `too_many_requests` with `retryAfterSeconds`, `unauthorized` for a wrong key, `too_large` for too
 * long a conversation, `bad_gateway` for a stream that was cut or an answer that is none, `invalid_request` for what it refuses.
 * No text of an error holds a key.
 */
export interface LanguageModel {
  /** provider/name */
  id: string;
  /** Whether it takes tools; otherwise code comes in fences. */
  takesTools: boolean;
  ask(request: ModelRequest): AsyncIterable<ModelEvent>;
}
