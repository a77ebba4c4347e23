import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, type Tokens } from '#contract';
import type { LanguageModel, ModelEvent, ModelRequest, ToolCall } from '../models/model.ts';

const tries = 3;
/** A first attempt that took this long is not repeated: the reader has waited long enough. */
const patienceMs = 30_000;
const maxPauseSeconds = 20;
const firstPauseSeconds = 0.5;

/** Limit for the text of one round, in characters. */
const maxText = 1_000_000;

const passing = new Set(['unavailable', 'too_many_requests', 'bad_gateway']);

/** The reply of a model in one round. */
export interface Reply {
  text: string;
  calls: ToolCall[];
  end: Extract<ModelEvent, { type: 'end' }>['reason'];
}

interface Asking {
  model: LanguageModel;
  request: ModelRequest;
  /** Called with text as it arrives. */
  onText: (text: string) => void | Promise<void>;
  /** The tokens that the model has used, added up. */
  tokens: Tokens;
}

/** Text before a failure stays in `reply`, so that it can be kept. */
const createReply = (): Reply => ({ text: '', calls: [], end: 'stop' });

const readReply = async ({ model, request, onText, tokens }: Asking, reply: Reply): Promise<void> => {
  let isWhole = false;
  for await (const event of model.ask(request)) {
    request.signal.throwIfAborted();
    switch (event.type) {
      case 'text':
        if (event.text === '') break;
        reply.text += event.text;
        if (reply.text.length > maxText)
          throw new CodeBoxError('bad_gateway', `The model ${model.id} exceeded the text limit.`);
        await onText(event.text);
        break;
      case 'call':
        reply.calls.push(event.call);
        break;
      case 'tokens':
        tokens.input += event.input;
        tokens.output += event.output;
        break;
      case 'end':
        reply.end = event.reason;
        isWhole = true;
    }
  }
  request.signal.throwIfAborted();
  if (!isWhole) throw new CodeBoxError('bad_gateway', `The model ${model.id} stopped in the middle of its answer.`);
  if (reply.text === '' && reply.calls.length === 0) throw emptyReply(model.id, reply.end);
};

const emptyReply = (model: string, end: Reply['end']): CodeBoxError =>
  end === 'refused'
    ? new CodeBoxError('invalid_request', `The model ${model} refuses to answer this.`)
    : new CodeBoxError('bad_gateway', `The model ${model} sent an empty answer.`);

const pauseOf = (error: unknown, failures: number): number | undefined => {
  if (!(error instanceof CodeBoxError) || !passing.has(error.code)) return undefined;
  const seconds = error.retryAfterSeconds ?? firstPauseSeconds * 2 ** (failures - 1) * (1 + Math.random() / 2);
  return seconds <= maxPauseSeconds ? seconds : undefined;
};

/**
 * Asks the model, and tries again after a temporary failure if no text of the answer has been shown. `onPart` receives
 * the text of an interrupted answer. Rejects with the model's CodeBoxError, or with the reason of the signal.
 */
export const askModel = async (asking: Asking, onPart: (text: string) => void): Promise<Reply> => {
  const startedAt = performance.now();
  for (let failures = 1; ; failures++) {
    const reply = createReply();
    try {
      await readReply(asking, reply);
      return reply;
    } catch (error) {
      if (reply.text !== '') onPart(reply.text);
      const seconds = pauseOf(error, failures);
      const isOver = reply.text !== '' || failures >= tries || performance.now() - startedAt > patienceMs;
      if (isOver || seconds === undefined) throw error;
      await sleep(seconds * 1000, undefined, { signal: asking.request.signal });
    }
  }
};
