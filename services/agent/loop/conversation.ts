import type { ExecutionEvent } from '#contract';
import type { LanguageModel, ModelMessage } from '../models/model.ts';
import type { ChangedPaths, Workspace } from './workspace.ts';

/** What happens while an answer is made, in order. The service numbers these, shows and keeps them. */
export type LoopEvent =
  | { type: 'text'; text: string }
  | {
      type: 'code';
      call: string;
      language: string;
      code: string;
      state: 'waiting' | 'running' | 'declined' | 'stopped' | 'done';
    }
  | { type: 'output'; call: string; event: ExecutionEvent }
  | {
      type: 'ran';
      call: string;
      status: string;
      durationMs: number;
      files: ChangedPaths;
    }
  | { type: 'tool'; call: string; name: string; arguments: Record<string, unknown>; result: string; ok: boolean }
  | { type: 'notice'; kind: 'installed' | 'repaired' | 'limit'; text: string };

export interface Limits {
  /** How often the model is asked for one answer. */
  rounds: number;
  /** How often the same mistake may be made. */
  sameMistake: number;
  /** What a model is told of one output, in characters. */
  outputCharacters: number;
  /** Of the conversation that the model is given. */
  historyTokens: number;
}

export interface Conversation {
  model: LanguageModel;
  workspace: Workspace;
  /** Earlier messages, the oldest first, without a system prompt; the last one is the question. */
  messages: readonly ModelMessage[];
  /** Added to the system prompt: what the reader should know of continuity, uploads, language. */
  notes: readonly string[];
  /** Asked before code runs; undefined when nobody wants to be. */
  approve:
    | ((call: string, signal: AbortSignal) => Promise<{ approved: boolean; reason?: string | undefined }>)
    | undefined;
  limits: Limits;
  /** Told in order, one at a time: the next thing waits until it is taken. */
  onEvent: (event: LoopEvent) => void | Promise<void>;
  /** Aborted when its reader stops it. */
  signal: AbortSignal;
}
