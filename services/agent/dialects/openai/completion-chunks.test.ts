import { expect, test } from 'vitest';
import type { AnswerEvent } from '#contract';
import { createCompletionChunks, toCompletion } from './completion-chunks.ts';

const origin = 'http://agent.test';
const expiresAt = '2030-01-01T00:00:00Z';
const file = { path: 'a.csv', name: 'a.csv', sizeBytes: 3, mime: 'text/csv', url: '/v1/files/t/a.csv', expiresAt };
const image = { name: 'f.png', mime: 'image/png' as const, url: '/v1/files/t/f.png', chartUrl: null, expiresAt };

const answer: AnswerEvent[] = [
  { seq: 1, type: 'start', chat: 'chat-1', message: 'msg-1', question: 'q', title: null, model: 'm' },
  { seq: 2, type: 'text', text: 'I plot.' },
  { seq: 3, type: 'code', call: 'c', language: 'python', code: 'plot()', state: 'running' },
  { seq: 4, type: 'output', call: 'c', event: { seq: 2, type: 'stdout', text: '\u001b[31mred\u001b[0m' } },
  { seq: 5, type: 'output', call: 'c', event: { seq: 3, type: 'result', mime: { 'text/plain': '42' }, main: true } },
  { seq: 6, type: 'image', call: 'c', image },
  { seq: 7, type: 'ran', call: 'c', status: 'ok', durationMs: 1 },
  { seq: 8, type: 'text', text: 'There ' },
  { seq: 9, type: 'text', text: 'it is.' },
  {
    seq: 10,
    type: 'done',
    status: 'ok',
    content: '',
    files: [file],
    tokens: { input: 3, output: 4 },
    rounds: 2,
  },
];

const chunksOf = (events: AnswerEvent[], includeUsage = false) =>
  events.flatMap(
    createCompletionChunks({ id: 'chatcmpl-1', model: 'm', chat: 'chat-1', created: 1, origin, includeUsage }),
  );

test('a completion has the text with pictures and links to files, and the code separately', () => {
  const completion = toCompletion(chunksOf(answer), { input: 3, output: 4 });
  expect(completion?.choices[0]?.message.content).toBe(
    `I plot.\n\n![f.png](${origin}/v1/files/t/f.png)\n\nThere it is.\n\n- [a.csv](${origin}/v1/files/t/a.csv)`,
  );
  expect(completion?.choices[0]?.finish_reason).toBe('stop');
  expect(completion?.usage).toEqual({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 });
  expect(completion?.codebox).toMatchObject({
    chat: 'chat-1',
    files: [{ url: `${origin}/v1/files/t/a.csv` }],
    code_log: [{ language: 'python', code: 'plot()', output: 'red\n42\n', status: 'ok' }],
  });
});

test('a stream begins with the role, ends with the reason, and reports tokens only on request', () => {
  const chunks = chunksOf(answer);
  expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' });
  expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
  expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false);
  const counted = chunksOf(answer, true);
  expect(counted.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 7 } });
  expect(counted.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
});

test('a failed answer yields no completion', () => {
  const failed = answer.map((event) => (event.type === 'done' ? { ...event, status: 'error' as const } : event));
  expect(toCompletion(chunksOf(failed), null)).toBeUndefined();
});
