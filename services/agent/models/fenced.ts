import { z } from 'zod';
import { hasCode } from '#contract';
import { createFences } from './fences.ts';
import type { LanguageModel, ModelEvent, ModelMessage, ModelRequest } from './model.ts';

/** The one tool that fenced code can call, with the languages that it accepts. */
const toolName = 'run_code';
const runCodeSchema = z.object({ properties: z.object({ language: z.object({ enum: z.array(z.string()).min(1) }) }) });
const argumentsSchema = z.object({ language: z.string().catch(''), code: z.string() });

const shortNames = new Map(Object.entries({ py: 'python', js: 'javascript', ts: 'typescript', sh: 'bash' }));

const languagesOf = ({ tools }: ModelRequest): readonly string[] => {
  const parsed = runCodeSchema.safeParse(tools.find(({ name }) => name === toolName)?.parameters);
  return parsed.success ? parsed.data.properties.language.enum : [];
};

const manualOf = (languages: readonly string[], mayCall: boolean): string =>
  mayCall
    ? `How run_code is called here: write the code between fences that name its language, such as
\`\`\`${languages[0]}
print(1)
\`\`\`
and stop. The languages are ${languages.join(', ')}. The block is run at once, and you are told what it printed; never write that
yourself. Code that is not to be run stands between fences marked text. When you know the answer, give it without such a block.`
    : 'Answer in words now: no code is run any more.';

const fencedCall = (text: string): string => {
  const { data } = argumentsSchema.safeParse(parse(text));
  return data ? `\`\`\`${data.language}\n${data.code}\n\`\`\`` : text;
};

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const toPlain = (message: ModelMessage): Exclude<ModelMessage, { role: 'tool' }> => {
  if (message.role === 'tool') return { role: 'user', content: `[What the code gave]\n${message.content}` };
  if (message.role !== 'assistant') return message;
  const content = [message.content.trimEnd(), ...message.calls.map((call) => fencedCall(call.arguments))];
  return { role: 'assistant', content: content.filter((part) => part !== '').join('\n\n'), calls: [] };
};

/** The conversation without calls, in alternating turns, as such models expect it. */
const toPlainMessages = (messages: readonly ModelMessage[], manual: string): ModelMessage[] => {
  const plain: ModelMessage[] = [];
  for (const message of messages.map(toPlain)) {
    const last = plain.at(-1);
    if (last?.role === message.role) last.content += `\n\n${message.content}`;
    else plain.push({ ...message });
  }
  const [system] = plain;
  if (system?.role === 'system') system.content += `\n\n${manual}`;
  else plain.unshift({ role: 'system', content: manual });
  return plain;
};

async function* toEvents(
  model: LanguageModel,
  request: ModelRequest,
  languages: readonly string[],
): AsyncGenerator<ModelEvent, void, undefined> {
  const fences = createFences((name) => {
    const wanted = name.toLowerCase();
    return [wanted, shortNames.get(wanted) ?? ''].find((known) => languages.includes(known));
  });
  const callOf = (block: { language: string; code: string }): ModelEvent => ({
    type: 'call',
    call: { id: `call_${crypto.randomUUID()}`, name: toolName, arguments: JSON.stringify(block) },
  });
  for await (const event of model.ask(request)) {
    if (event.type === 'text') {
      const { text, block } = fences.add(event.text);
      if (text !== '') yield { type: 'text', text };
      if (block === undefined) continue;
      yield callOf(block);
      yield { type: 'end', reason: 'calls' };
      // Text after its code would be made-up output.
      return;
    }
    if (event.type === 'end') {
      const { text, block } = fences.end();
      if (text !== '') yield { type: 'text', text };
      if (block) yield callOf(block);
      yield { type: 'end', reason: block && event.reason === 'stop' ? 'calls' : event.reason };
      return;
    }
    yield event;
  }
}

/**
 * Wraps a model without tool support as one with it: the model is instructed to write code between fences, the first
 * such block of an answer becomes a call of run_code, and results become messages of the user. Code can do what the
 * other tools do.
 */
export const createFencedModel = (model: LanguageModel): LanguageModel => ({
  id: model.id,
  takesTools: false,
  ask(request) {
    const languages = languagesOf(request);
    const messages = toPlainMessages(request.messages, manualOf(languages, request.mayCall));
    const plain = { ...request, messages, tools: [] };
    return request.mayCall ? toEvents(model, plain, languages) : model.ask(plain);
  },
});

/** How servers refuse tools: Ollama, llama.cpp, vLLM and OpenRouter, in this order. */
const refusals =
  /does not support tools|tools param requires|tool choice requires|no endpoints found that support tool/i;

/** A refusal may be temporary, for example that of one server of many. */
const refusedMs = 600_000;

/** A model that is called with tools until it refuses them, and then without for ten minutes. */
export const createWillingModel = (model: LanguageModel, now = () => performance.now()): LanguageModel => {
  const fenced = createFencedModel(model);
  let refusedUntil = 0;
  const takesTools = () => now() >= refusedUntil;
  return {
    id: model.id,
    get takesTools() {
      return takesTools();
    },
    async *ask(request) {
      if (takesTools()) {
        try {
          return yield* model.ask(request);
        } catch (error) {
          // The refusal comes before any text.
          if (!(hasCode(error, 'invalid_request') && refusals.test(error.message))) throw error;
          refusedUntil = now() + refusedMs;
        }
      }
      yield* fenced.ask(request);
    },
  };
};
