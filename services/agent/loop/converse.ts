import { CodeBoxError, type Tokens } from '#contract';
import type { ModelMessage, ToolCall } from '../models/model.ts';
import { askModel, type Reply } from './asking.ts';
import { createCallNames, toKept } from './calls.ts';
import type { Conversation } from './conversation.ts';
import { fitHistory, pairCalls } from './history.ts';
import { createMistakes } from './mistakes.ts';
import { promptOf } from './prompt.ts';
import { carryOut } from './tasks.ts';
import { readTask, toolsOf } from './tools.ts';
import type { Facts } from './workspace.ts';

export interface Outcome {
  status: 'ok' | 'stopped' | 'limit' | 'error';
  /** The messages that this answer added: to be stored and sent again with the next question. */
  messages: ModelMessage[];
  tokens: Tokens;
  rounds: number;
  error: { code: string; detail: string } | null;
}

/** A model that makes more calls in one round has lost track. */
const maxCalls = 8;
/** How many rounds of an answer are not counted because a package was missing in the middle of the code. */
const maxSpared = 3;

/** Why an answer is ended early, worded for the reader and for the model. */
interface Bound {
  notice: string;
  note: string;
}

const closingWords =
  'You cannot run anything more now. Tell the reader honestly what was achieved, what failed and why.';

/** One answer that is being generated. */
const createAnswer = (conversation: Conversation, facts: Facts) => {
  const { model, limits, onEvent, signal, notes } = conversation;
  const grown: ModelMessage[] = [];
  const tokens: Tokens = { input: 0, output: 0 };
  const mistakes = createMistakes();
  const tools = toolsOf(facts);
  const prompt: ModelMessage = { role: 'system', content: promptOf(facts, notes) };
  const named = createCallNames(conversation.messages);
  let rounds = 0;
  /** Rounds that only continued after a missing package was installed. */
  let spared = 0;

  const ask = async (mayCall: boolean, more: readonly ModelMessage[] = []): Promise<Reply> => {
    rounds += 1;
    const messages = [prompt, ...fitHistory([...conversation.messages, ...grown, ...more], limits.historyTokens)];
    const reply = await askModel(
      {
        model,
        request: { messages, tools, mayCall, signal },
        onText: (text) => onEvent({ type: 'text', text }),
        tokens,
      },
      (text) => grown.push({ role: 'assistant', content: text, calls: [] }),
    );
    return { ...reply, calls: reply.calls.map(named) };
  };

  /**
   * Returns how often this call's mistake has been made so far (0 for no mistake), and whether a missing package was
   * installed.
   */
  const carryOutOne = async (call: ToolCall, isCut: boolean): Promise<{ times: number; wasInstalling: boolean }> => {
    const answer = (content: string) => grown.push({ role: 'tool', call: call.id, content });
    const read = isCut
      ? { fault: 'The call was cut off because the answer became too long: write less at once, or in several steps.' }
      : readTask(call, facts.languages);
    if ('fault' in read) {
      answer(read.fault);
      return { times: mistakes.noteFault(read.fault), wasInstalling: false };
    }
    if (read.isRepaired) {
      const text = `The model wrote the arguments of ${read.task.name} wrongly; they were repaired.`;
      await onEvent({ type: 'notice', kind: 'repaired', text });
    }
    const { result, error, fault, wasInstalling } = await carryOut(call.id, read.task, conversation);
    answer(result);
    const times = error ? mistakes.noteError(error) : fault === null ? 0 : mistakes.noteFault(fault);
    return { times, wasInstalling };
  };

  /** Carries out the calls one after the other; returns the limit that was reached, if any. */
  const carryOutAll = async ({ text, calls, end }: Reply): Promise<Bound | undefined> => {
    grown.push({ role: 'assistant', content: text, calls: calls.map(toKept) });
    let isSpared = false;
    for (const [index, call] of calls.entries()) {
      signal.throwIfAborted();
      if (index >= maxCalls) {
        grown.push({ role: 'tool', call: call.id, content: `Refused: at most ${maxCalls} calls at once.` });
        continue;
      }
      const { times, wasInstalling } = await carryOutOne(call, end === 'length' && index === calls.length - 1);
      isSpared ||= wasInstalling;
      signal.throwIfAborted();
      if (times >= limits.sameMistake) {
        const notice = `Stopped: the same mistake was made ${times} times.`;
        return { notice, note: `The same mistake was made ${times} times.` };
      }
    }
    if (isSpared && spared < maxSpared) spared += 1;
    return undefined;
  };

  const close = async ({ notice, note }: Bound): Promise<'limit'> => {
    await onEvent({ type: 'notice', kind: 'limit', text: notice });
    const { text } = await ask(false, [{ role: 'user', content: `[${note} ${closingWords}]` }]);
    if (text !== '') grown.push({ role: 'assistant', content: text, calls: [] });
    return 'limit';
  };

  return {
    /** Continues until the model has answered, or a limit is reached. */
    async make(): Promise<'ok' | 'limit'> {
      while (rounds - spared < limits.rounds - 1) {
        const reply = await ask(true);
        if (reply.calls.length === 0) {
          grown.push({ role: 'assistant', content: reply.text, calls: [] });
          return reply.end === 'length' ? await reportCut() : 'ok';
        }
        const bound = await carryOutAll(reply);
        if (bound) return await close(bound);
      }
      const note = `You have used all ${limits.rounds - 1} attempts.`;
      return await close({ notice: `Stopped after ${limits.rounds - 1} attempts.`, note });
    },
    outcome: (status: Outcome['status'], error: Outcome['error']): Outcome => ({
      status,
      messages: pairCalls(grown),
      tokens,
      rounds,
      error,
    }),
  };

  async function reportCut(): Promise<'limit'> {
    await onEvent({
      type: 'notice',
      kind: 'limit',
      text: 'The answer ends here: it reached the length that the model allows.',
    });
    return 'limit';
  }
};

/**
 * Answers the last message: asks the model, carries out its calls, returns their results to it, until it has answered.
 * Mistakes of a model or a box are part of the outcome; only `onEvent` and bugs of this program make it reject.
 */
export const converse = async (conversation: Conversation): Promise<Outcome> => {
  const { workspace, signal } = conversation;
  let answer: ReturnType<typeof createAnswer> | undefined;
  const outcome = (status: Outcome['status'], error: Outcome['error'] = null): Outcome =>
    answer?.outcome(status, error) ?? { status, messages: [], tokens: { input: 0, output: 0 }, rounds: 0, error };
  try {
    answer = createAnswer(conversation, await workspace.facts(signal));
    return outcome(await answer.make());
  } catch (thrown) {
    if (signal.aborted) return outcome('stopped');
    if (!(thrown instanceof CodeBoxError)) throw thrown;
    return outcome('error', { code: thrown.code, detail: thrown.message });
  }
};
