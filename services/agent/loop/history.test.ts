import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ModelMessage } from '../models/model.ts';
import { estimateTokens, fitHistory, pairCalls } from './history.ts';

const user = (content: string): ModelMessage => ({ role: 'user', content });
const reply = (content: string, ...ids: string[]): ModelMessage => ({
  role: 'assistant',
  content,
  calls: ids.map((id) => ({ id, name: 'run_code', arguments: '{}' })),
});
const result = (call: string, content = 'ok'): ModelMessage => ({ role: 'tool', call, content });

const anyMessage: fc.Arbitrary<ModelMessage> = fc.oneof(
  fc.string({ maxLength: 300 }).map(user),
  fc
    .tuple(fc.string({ maxLength: 50 }), fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }))
    .map(([text, ids]) => reply(text, ...new Set(ids))),
  fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.string({ maxLength: 2000 })).map(([call, text]) => result(call, text)),
);

test('a call without a result gets one, and a result without its call is left out', () => {
  expect(pairCalls([result('x'), user('q'), reply('', 'a', 'b'), result('b', 'two'), result('z'), user('r')])).toEqual([
    user('q'),
    reply('', 'a', 'b'),
    result('a', 'It was not carried out.'),
    result('b', 'two'),
    user('r'),
  ]);
});

test('the kept history always begins with a question, has the last one, and pairs calls with results', () => {
  fc.assert(
    fc.property(fc.array(anyMessage, { maxLength: 30 }), fc.integer({ min: 0, max: 2000 }), (messages, budget) => {
      const whole = [user('first'), ...messages, user('the last')];
      const kept = fitHistory(whole, budget);
      expect(kept[0]?.role).toBe('user');
      expect(kept).toContainEqual(user('the last'));
      expect(pairCalls(kept)).toEqual(kept);
    }),
  );
});

test('old outputs are shortened before messages are dropped', () => {
  const old = result('a', 'x'.repeat(10_000));
  const messages = [
    user('one'),
    reply('', 'a'),
    old,
    reply('done'),
    user('two'),
    reply('', 'b'),
    result('b', 'y'.repeat(2000)),
  ];
  const kept = fitHistory(messages, 1000);
  expect(kept.length).toBe(messages.length);
  expect(kept[2]?.content).toContain('bytes are left out here');
  expect(kept.at(-1)).toEqual(messages.at(-1));
});

test('then the oldest messages are dropped to stay within the budget', () => {
  const messages = Array.from({ length: 100 }, (_, turn) => [
    user(`q${turn} ${'w '.repeat(50)}`),
    reply(`a${turn}`),
  ]).flat();
  const kept = fitHistory([...messages, user('now')], 500);
  expect(kept.reduce((sum, message) => sum + estimateTokens(message), 0)).toBeLessThanOrEqual(500);
  expect(kept.at(-2)).toEqual(reply('a99'));
  expect(kept.length).toBeGreaterThan(10);
});

test('recent results stay whole while old messages are dropped for them', () => {
  const talk = Array.from({ length: 100 }, (_, turn) => [
    user(`q${turn} ${'w '.repeat(50)}`),
    reply(`a${turn}`),
  ]).flat();
  const computed = [user('now'), reply('', 'a', 'b'), result('a', 'x'.repeat(2000)), result('b', 'y'.repeat(2000))];
  const kept = fitHistory([...talk, ...computed], 2000);
  expect(kept.slice(-4)).toEqual(computed);
  expect(kept.length).toBeLessThan(talk.length);
});
