import type {
  CallToolResult,
  ServerContext,
  StandardSchemaWithJSON,
  ToolAnnotations,
} from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import type { KeyScope } from '#contract';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { StartedRun } from './resumption.ts';

/** One message of a client. */
export interface Call {
  /** Whether a key has this scope. */
  mayUse: (scope: KeyScope) => boolean;
  /** Returns the box of the caller once it is ready. */
  open: () => Promise<BoxRef>;
  /** Registers a run that a message can cancel; undefined where the client cancels by leaving. */
  cancelable: (() => { signal: AbortSignal } & Disposable) | undefined;
  /** Called with each run that the message has started. */
  onRun: (run: StartedRun) => void;
  log: Logger;
}

export interface ToolSpec<I extends StandardSchemaWithJSON, O extends StandardSchemaWithJSON> {
  name: string;
  title: string;
  description: string;
  /** The scope that a key needs to see and to call the tool. */
  scope: KeyScope;
  input: I;
  output: O;
  annotations: ToolAnnotations;
}

/** Adds a tool, unless the key of the caller does not permit it. */
export type AddTool = <I extends StandardSchemaWithJSON, O extends StandardSchemaWithJSON>(
  spec: ToolSpec<I, O>,
  handle: (args: StandardSchemaWithJSON.InferOutput<I>, context: ServerContext) => Promise<CallToolResult>,
) => void;
