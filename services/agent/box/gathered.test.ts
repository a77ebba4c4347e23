import { expect, test } from 'vitest';
import type { ExecutionEvent } from '#contract';
import { createGathered } from './gathered.ts';
import { createRunText } from './run-text.ts';

const done: Extract<ExecutionEvent, { type: 'done' }> = {
  seq: 9,
  type: 'done',
  status: 'ok',
  durationMs: 1,
  stateLost: false,
  files: { created: ['.codebox/outputs/a.txt', 'b.csv'], modified: ['.codebox/c'], deleted: ['.codebox/d', 'e.csv'] },
};

test("the text of a run follows the order of its events, counts pictures and leaves out the agent's own files", () => {
  const gathered = createGathered();
  const events: ExecutionEvent[] = [
    { seq: 1, type: 'stdout', text: 'a\n' },
    { seq: 2, type: 'display', mime: { 'image/png': 'aGk=', 'text/plain': '<Figure size 640x480>' } },
    { seq: 3, type: 'truncated', droppedBytes: 10, droppedEvents: 0 },
    { seq: 4, type: 'display', mime: { 'text/html': '<b>' } },
    { seq: 5, type: 'stderr', text: 'b\n' },
    { seq: 6, type: 'result', mime: { 'text/plain': '42' }, main: true },
  ];
  for (const event of events) gathered.add(event);
  expect(gathered.end('exe_1', done)).toEqual({
    execution: 'exe_1',
    status: 'ok',
    durationMs: 1,
    text: 'a\n\n[… 10 bytes are left out here …]\n[shown: text/html]\nb\n42\n',
    error: null,
    stateLost: false,
    cause: null,
    images: 1,
    files: { created: ['b.csv'], modified: [], deleted: ['e.csv'] },
  });
});

test('output of earlier code is marked as such', () => {
  const gathered = createGathered();
  const origin = 'exe-earlier';
  gathered.add({ seq: 1, type: 'stdout', text: 'a\n' });
  gathered.add({ seq: 2, type: 'stdout', text: 'b\n', origin });
  gathered.add({ seq: 3, type: 'stderr', text: 'c\n', origin });
  gathered.add({ seq: 4, type: 'stdout', text: 'd\n' });
  expect(gathered.end('exe_1', done).text).toBe(
    'a\n\n[written by a thread or task of earlier code:]\nb\nc\n\n[written by this code:]\nd\n',
  );
});

test('a text keeps its start and its end in bounded memory, and counts the omitted bytes', () => {
  const text = createRunText(10);
  for (let index = 0; index < 1000; index++) text.add(`${index % 10}`);
  expect(text.read()).toMatch(/^0123456789\n\[… \d+ bytes are left out here …\]\n\d{10,20}$/);
  const [, missing, tail = ''] = /(\d+) bytes.*\n(\d+)$/.exec(text.read()) ?? [];
  expect(Number(missing) + tail.length + 10).toBe(1000);
  const short = createRunText(10);
  short.add('x'.repeat(30));
  expect(short.read()).toBe('x'.repeat(30));
});
