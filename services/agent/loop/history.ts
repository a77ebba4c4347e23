import type { ModelMessage } from '../models/model.ts';
import { headAndTail } from './outputs.ts';

/** The size to which old outputs are shortened. */
const shortCharacters = 400;
const perMessage = 4;

const lost = 'It was not carried out.';

/** An estimate of the tokens of a message: four bytes each. */
export const estimateTokens = (message: ModelMessage): number => {
  const calls =
    message.role === 'assistant' ? message.calls.map(({ name, arguments: text }) => name + text).join('') : '';
  return perMessage + Math.ceil(Buffer.byteLength(message.content + calls) / 4);
};

const tokensOf = (messages: readonly ModelMessage[]): number =>
  messages.reduce((sum, message) => sum + estimateTokens(message), 0);

/** Gives each call exactly one result, directly after it, and drops results without a call. */
export const pairCalls = (messages: readonly ModelMessage[]): ModelMessage[] => {
  const paired: ModelMessage[] = [];
  messages.forEach((message, index) => {
    if (message.role === 'tool') return;
    if (message.role === 'assistant' && message.content === '' && message.calls.length === 0) return;
    paired.push(message);
    if (message.role !== 'assistant') return;
    const results = new Map<string, ModelMessage>();
    for (let at = index + 1; ; at++) {
      const result = messages[at];
      if (result?.role !== 'tool') break;
      if (!results.has(result.call)) results.set(result.call, result);
    }
    for (const { id } of message.calls) paired.push(results.get(id) ?? { role: 'tool', call: id, content: lost });
  });
  return paired;
};

/** Groups messages that belong together: a question, or an answer of the model with the results of its calls. */
const unitsOf = (messages: readonly ModelMessage[]): ModelMessage[][] => {
  const units: ModelMessage[][] = [];
  for (const message of messages) {
    const last = units.at(-1);
    if (message.role === 'tool' && last) last.push(message);
    else units.push([message]);
  }
  return units;
};

const shorten = (message: ModelMessage): ModelMessage =>
  message.role === 'tool' ? { ...message, content: headAndTail(message.content, shortCharacters) } : message;

/**
 * Fits a conversation into `budget` tokens. Before the last question, first outputs are shortened, then messages are
 * dropped, oldest first in both cases; only then are outputs after that question shortened, except for the newest. A
 * call and its result stay together, the last question and everything after it stay, and the result begins with a
 * question.
 */
export const fitHistory = (messages: readonly ModelMessage[], budget: number): ModelMessage[] => {
  const all = pairCalls(messages);
  let excess = tokensOf(all) - budget;
  const shortenOldest = (some: readonly ModelMessage[]): ModelMessage[] =>
    some.map((message) => {
      if (excess <= 0 || message.role !== 'tool') return message;
      const short = shorten(message);
      excess -= estimateTokens(message) - estimateTokens(short);
      return short;
    });

  const question = Math.max(
    0,
    all.findLastIndex(({ role }) => role === 'user'),
  );
  const earlier = unitsOf(shortenOldest(all.slice(0, question)));
  let from = 0;
  while (from < earlier.length && (excess > 0 || earlier[from]?.[0]?.role !== 'user')) {
    excess -= tokensOf(earlier[from] ?? []);
    from += 1;
  }
  return [...earlier.slice(from).flat(), ...shortenOldest(all.slice(question, -1)), ...all.slice(question).slice(-1)];
};
