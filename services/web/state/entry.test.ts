import { describe, expect, test } from 'vitest';
import type { AnswerEvent, CodeOutput } from '#contract';
import { applyEvent, emptyAnswer, toEntry } from './entry.ts';

const start: AnswerEvent = {
  seq: 1,
  type: 'start',
  chat: 'chat',
  message: 'answer',
  question: 'question',
  title: null,
  model: 'openai/x',
};
const events: AnswerEvent[] = [
  start,
  { seq: 2, type: 'text', text: 'I ' },
  { seq: 3, type: 'text', text: 'compute.' },
  { seq: 4, type: 'code', call: 'one', language: 'python', code: 'print(1)', state: 'waiting' },
  { seq: 5, type: 'code', call: 'one', language: 'python', code: 'print(1)', state: 'running' },
  { seq: 6, type: 'output', call: 'one', event: { seq: 2, type: 'stdout', text: '1' } },
  { seq: 7, type: 'ran', call: 'one', status: 'ok', durationMs: 5 },
  { seq: 8, type: 'text', text: 'It is 1.' },
  { seq: 9, type: 'done', status: 'ok', content: 'I compute.It is 1.', files: [], tokens: null, rounds: 2 },
];
const apply = (list: readonly AnswerEvent[]) => list.reduce(applyEvent, emptyAnswer('', null));

describe('an answer', () => {
  test('is built from its events: joined text, and code in its last state with its outputs', () => {
    const entry = apply(events);
    expect(entry).toMatchObject({ id: 'answer', status: 'ok', content: 'I compute.It is 1.', rounds: 2 });
    expect(entry.parts).toMatchObject([
      { type: 'text', text: 'I compute.' },
      { type: 'code', state: 'done', status: 'ok', durationMs: 5, outputs: { items: [{ text: '1' }] } },
      { type: 'text', text: 'It is 1.' },
    ]);
  });

  test('that is replayed does not appear twice', () => {
    const { createdAt: _, ...again } = apply([...events.slice(0, 6), ...events]);
    const { createdAt: __, ...once } = apply(events);
    expect(again).toEqual(once);
  });

  test('has its pictures where code has shown them, live and read again, and without places at the end', () => {
    const image = (name: string) => ({ name, mime: 'image/png' as const, url: name, chartUrl: null, expiresAt: '' });
    const text = (seq: number, word: string) => ({ seq, type: 'stdout' as const, text: word });
    const live = apply([
      ...events.slice(0, 6),
      { seq: 7, type: 'image', call: 'one', image: image('a') },
      { seq: 8, type: 'output', call: 'one', event: text(3, 'between') },
      { seq: 9, type: 'image', call: 'one', image: image('b') },
    ]);
    const order = [{ text: '1' }, { type: 'image', index: 0 }, { text: 'between' }, { type: 'image', index: 1 }];
    expect(live.parts[1]).toMatchObject({ outputs: { items: order } });
    const read = (outputs: CodeOutput[]) => {
      const code = { type: 'code', call: 'one', language: 'python', code: '', state: 'done', status: 'ok' } as const;
      const part = { ...code, durationMs: 1, outputs, images: [image('a'), image('b')], files: [] };
      return toEntry({ ...emptyAnswer('', null), parts: [part] }).parts[0];
    };
    const place = (index: number) => ({ type: 'image' as const, index });
    expect(read([text(2, '1'), place(0), text(3, 'between'), place(1)])).toMatchObject({ outputs: { items: order } });
    expect(read([place(0), { seq: 3, type: 'clear', wait: false }, text(4, 'last')])).toMatchObject({
      outputs: { items: [{ text: 'last' }, { type: 'image', index: 1 }] },
    });
  });

  test('keeps unchanged parts identical, so that they are not drawn again', () => {
    const before = apply(events.slice(0, 7));
    const after = applyEvent(before, { seq: 8, type: 'text', text: 'It' });
    expect(after.parts[1]).toBe(before.parts[1]);
    expect(before.parts).toHaveLength(2);
  });
});
