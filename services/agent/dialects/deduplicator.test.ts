import { expect, test } from 'vitest';
import type { AnswerEvent } from '#contract';
import { createDeduplicator } from './deduplicator.ts';

type Unnumbered = AnswerEvent extends infer E ? (E extends AnswerEvent ? Omit<E, 'seq'> : never) : never;

test('an answer that is replayed from its start continues where it was', () => {
  const image = { name: 'f.png', mime: 'image/png' as const, url: '/x', chartUrl: null, expiresAt: '' };
  const start: Unnumbered = { type: 'start', chat: 'c', message: 'm', question: 'q', title: null, model: null };
  const code = (state: 'running' | 'done'): Unnumbered => ({
    type: 'code',
    call: '1',
    language: 'python',
    code: 'x',
    state,
  });
  const ran: Unnumbered = { type: 'ran', call: '1', status: 'ok', durationMs: 1 };
  const output: Unnumbered = { type: 'output', call: '1', event: { seq: 1, type: 'stdout', text: 'o' } };
  const picture: Unnumbered = { type: 'image', call: '1', image };
  const events: Unnumbered[] = [
    start,
    { type: 'text', text: 'ab' },
    { type: 'text', text: 'cd' },
    code('running'),
    output,
    picture,
    ran,
    // A replay in fewer pieces, and one new event.
    start,
    { type: 'text', text: 'abcd' },
    code('done'),
    output,
    picture,
    ran,
    { type: 'text', text: 'ef' },
    picture,
  ];
  const once = createDeduplicator();
  const passed = events.flatMap((event, at) => once({ ...event, seq: at + 1 } as AnswerEvent) ?? []);
  expect(passed.map(({ type }) => type)).toEqual([
    'start',
    'text',
    'text',
    'code',
    'output',
    'image',
    'ran',
    'code',
    'text',
    'image',
  ]);
  expect(passed.flatMap((event) => (event.type === 'text' ? event.text : [])).join('')).toBe('abcdef');
});
