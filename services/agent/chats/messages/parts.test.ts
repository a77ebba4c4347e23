import { expect, test } from 'vitest';
import type { StoredImage } from '../../store/stored.ts';
import { createParts, toEvents } from './parts.ts';
import type { NewEvent } from './stored-event.ts';

const call = 'call-1';
const image = (name: string): StoredImage => ({ name, mime: 'image/png', blob: name, chartBlob: null });
const output = (seq: number, text: string): NewEvent => ({
  type: 'output',
  call,
  event: { seq, type: 'stdout', text },
});
const sent: NewEvent[] = [
  { type: 'code', call, language: 'python', code: '…', state: 'running' },
  output(1, 'before 0'),
  { type: 'image', call, image: image('figure-1.png') },
  output(3, 'before 1'),
  { type: 'image', call, image: image('figure-2.png') },
  output(5, 'after'),
];

test('pictures keep their places among the outputs, also when the answer is replayed', () => {
  const parts = createParts();
  for (const event of sent) parts.add(event);
  const [code] = parts.list();
  expect(code).toMatchObject({
    outputs: [
      { text: 'before 0' },
      { type: 'image', index: 0 },
      { text: 'before 1' },
      { type: 'image', index: 1 },
      { text: 'after' },
    ],
    images: [{ name: 'figure-1.png' }, { name: 'figure-2.png' }],
  });
  expect(toEvents(parts.list())).toEqual(sent);
});

test('a picture keeps its place where the text around it is cut, and one without a place comes last', () => {
  const parts = createParts();
  const long = 'x'.repeat(200_000);
  for (const event of [sent[0], output(1, long), sent[2], output(3, long)]) if (event) parts.add(event);
  const [code] = parts.list();
  if (code?.type !== 'code') throw new Error('there is no code');
  expect(code.outputs.map(({ type }) => type)).toEqual(['stdout', 'truncated', 'image', 'stdout']);
  const outputs = code.outputs.filter(({ type }) => type !== 'image');
  expect(toEvents([{ ...code, outputs }]).map(({ type }) => type)).toEqual([
    'code',
    'output',
    'output',
    'output',
    'image',
  ]);
});

test('a file that a later run deletes is marked as gone in earlier parts, and a new file of that name is not', () => {
  const parts = createParts();
  const run = (name: string, deleted?: string[]): NewEvent[] => {
    const file = { path: 'a.csv', name: 'a.csv', sizeBytes: null, mime: 'text/csv', blob: null };
    return [
      { type: 'code', call: name, language: 'python', code: '…', state: 'running' },
      ...(deleted ? [] : [{ type: 'file' as const, call: name, file }]),
      { type: 'ran', call: name, status: 'ok', durationMs: 1, ...(deleted && { deleted }) },
    ];
  };
  const goneIn = () =>
    parts.list().flatMap((part) => (part.type === 'code' ? part.files.map((one) => one.isGone) : []));
  for (const event of [...run('1'), ...run('2', ['a.csv'])]) parts.add(event);
  expect([goneIn(), parts.files()]).toMatchObject([[true], [{ path: 'a.csv', isGone: true }]]);
  for (const event of run('3')) parts.add(event);
  expect(goneIn()).toEqual([true, undefined]);
  expect(parts.files()).toMatchObject([{ path: 'a.csv' }]);
  expect(parts.files()[0]?.isGone).toBeUndefined();
  expect(toEvents(parts.list()).filter(({ type }) => type === 'ran')[1]).toMatchObject({ deleted: ['a.csv'] });
});
