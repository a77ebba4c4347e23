import type { ExecutionEvent } from '#contract';
import type { LanguageModel, ModelMessage } from '../models/model.ts';
import type { ChangedPaths, Workspace } from './workspace.ts';

/** The events of an answer while it is generated, in order. The service numbers, shows and stores these events. */
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
  /** The most requests to the model for one answer. */
  rounds: number;
  /** How many times the same mistake may be made. */
  sameMistake: number;
  /** How much of one output the model receives, in characters. */
  outputCharacters: number;
  /** The size of the conversation that the model receives. */
  historyTokens: number;
}

export interface Conversation {
  model: LanguageModel;
  workspace: Workspace;
  /** Earlier messages, oldest first, without a system prompt; the last one is the question. */
  messages: readonly ModelMessage[];
  /** Additions to the system prompt about continuity, uploads and language. */
  notes: readonly string[];
  /** Called before code runs; undefined when no approval is needed. */
  approve:
    | ((call: string, signal: AbortSignal) => Promise<{ approved: boolean; reason?: string | undefined }>)
    | undefined;
  limits: Limits;
  /** Called in order, one event at a time: the next step waits until it resolves. */
  onEvent: (event: LoopEvent) => void | Promise<void>;
  /** Aborted when the reader stops the answer. */
  signal: AbortSignal;
}
