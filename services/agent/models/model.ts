import { CodeBoxError } from '#contract';

/** A tool that a model may call; `parameters` is a JSON Schema of an object. */
export interface ToolSpec {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

/** A call as the model wrote it: its arguments are text that need not be JSON. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** A model that writes a longer call has lost track. */
export const maxArgumentCharacters = 1_000_000;

export const endlessCall = () => new CodeBoxError('bad_gateway', 'The model does not finish a call.');

/** One message of a conversation, independent of the provider's format. */
export type ModelMessage =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string; calls: ToolCall[] }
  | { role: 'tool'; call: string; content: string };

export interface ModelRequest {
  messages: readonly ModelMessage[];
  tools: readonly ToolSpec[];
  /** Whether the model may call tools now; otherwise it has to answer in words. */
  mayCall: boolean;
  signal: AbortSignal;
}

/** The events that a model sends, in order. A call arrives whole. `end` is the last event; a stream without it was cut. */
export type ModelEvent =
  | { type: 'text'; text: string }
  | { type: 'call'; call: ToolCall }
  | { type: 'tokens'; input: number; output: number }
  | { type: 'end'; reason: 'stop' | 'calls' | 'length' | 'refused' };

/**
 * The one port to language models. `ask` throws `CodeBoxError`: `unavailable` when the server cannot be reached, fails
 * (5xx), is overloaded or falls silent, `too_many_requests` with `retryAfterSeconds`, `unauthorized` for a wrong key,
 * `too_large` for a conversation that is too long, `bad_gateway` for a stream that was cut or an invalid answer,
 * `invalid_request` for what the model refuses. No message contains a key.
 */
export interface LanguageModel {
  /** provider/name */
  id: string;
  /** Whether the model takes tools; otherwise its code comes in fences. */
  takesTools: boolean;
  ask(request: ModelRequest): AsyncIterable<ModelEvent>;
}
