import type { Box } from '#contract';
import { createBoxWorkspace } from '../../services/agent/box/box-workspace.ts';
import { createFacts } from '../../services/agent/box/facts.ts';
import type { Conversation, Limits, LoopEvent } from '../../services/agent/loop/conversation.ts';
import { converse, type Outcome } from '../../services/agent/loop/converse.ts';
import { createAnthropicModel } from '../../services/agent/models/anthropic.ts';
import type { LanguageModel } from '../../services/agent/models/model.ts';
import { createOpenAiModel } from '../../services/agent/models/openai.ts';
import type { RunningGateway } from '../api/harness.ts';
import type { ModelServer, Wire } from './model-server.ts';

export const limits: Limits = { rounds: 12, sameMistake: 3, outputCharacters: 8000, historyTokens: 60_000 };

/** A key in the format of providers, which no error text may contain. */
export const modelKey = 'sk-test-0123456789abcdef';

/** Connects to the scripted model as the agent does. */
export const modelAt = ({ url }: ModelServer, wire: Wire, silenceSeconds = 20): LanguageModel => {
  const common = { id: `${wire}/scripted`, name: 'scripted', silenceSeconds };
  if (wire === 'anthropic') return createAnthropicModel({ ...common, server: { url, key: modelKey } });
  return createOpenAiModel({ ...common, server: { url: `${url}/v1`, key: modelKey } });
};

const facts = createFacts();

export interface Answer extends Outcome {
  events: LoopEvent[];
  /** The whole text. */
  text: string;
}

/** Asks one question in a box and waits for the whole answer. */
export const askQuestion = async (
  { gateway, box, model }: { gateway: RunningGateway; box: Box; model: LanguageModel },
  question: string,
  more: Partial<Conversation> = {},
): Promise<Answer> => {
  const events: LoopEvent[] = [];
  const outcome = await converse({
    model,
    workspace: createBoxWorkspace({ client: gateway.client, tenant: 'default', box, facts }),
    messages: [{ role: 'user', content: question }],
    notes: [],
    approve: undefined,
    limits,
    signal: new AbortController().signal,
    ...more,
    onEvent: async (event) => {
      events.push(event);
      await more.onEvent?.(event);
    },
  });
  const text = events.map((event) => (event.type === 'text' ? event.text : '')).join('');
  return { ...outcome, events, text };
};

/** The results that the model got for its calls. */
export const results = ({ messages }: Outcome): string[] =>
  messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));

/** The notices of one kind. */
export const notices = ({ events }: Answer, kind: string): string[] =>
  events.flatMap((event) => (event.type === 'notice' && event.kind === kind ? [event.text] : []));

/** The states of its code, in order. */
export const statesOf = ({ events }: Answer): string[] =>
  events.flatMap((event) => (event.type === 'code' ? [event.state] : []));
