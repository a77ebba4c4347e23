import { expect, test } from 'vitest';
import type { ExecutionEvent } from '#contract';
import { createOutputs } from './outputs.ts';

const stdout = (text: string, seq = 1): ExecutionEvent => ({ seq, type: 'stdout', text });

test('short outputs are kept unchanged, with the text of one stream merged', () => {
  const outputs = createOutputs();
  outputs.add(stdout('a'));
  outputs.add(stdout('b'));
  outputs.add({ seq: 3, type: 'stderr', text: 'c' });
  outputs.add({ seq: 4, type: 'result', mime: { 'text/plain': '1' }, main: true });
  expect(outputs.list().map((event) => ('text' in event ? event.text : event.type))).toEqual(['ab', 'c', 'result']);
});

test('long text keeps its head, its tail and the size of the gap', () => {
  const outputs = createOutputs();
  let whole = '';
  for (let i = 0; i < 5000; i++) {
    const line = `line ${i} ${'.'.repeat(40)}\n`;
    whole += line;
    outputs.add(stdout(line, i + 1));
  }
  const [head, gap, tail] = outputs.list();
  if (head?.type !== 'stdout' || gap?.type !== 'truncated' || tail?.type !== 'stdout') throw new Error('not as kept');
  expect(whole.startsWith(head.text)).toBe(true);
  expect(whole.endsWith(tail.text)).toBe(true);
  expect(head.text.length + tail.text.length).toBeLessThanOrEqual(65_536);
  expect(head.text.length + gap.droppedBytes + tail.text.length).toBe(whole.length);
});

test('displayed data is bounded too', () => {
  const outputs = createOutputs();
  for (let seq = 1; seq <= 10; seq++) outputs.add({ seq, type: 'display', mime: { 'text/html': 'x'.repeat(250_000) } });
  const kept = outputs.list();
  expect(kept.filter(({ type }) => type === 'display')).toHaveLength(3);
  expect(kept.at(-1)).toMatchObject({ type: 'truncated', droppedEvents: 7 });
});

test('the displayed data of all runs of one answer has one bound', () => {
  const room = { room: 300_000 };
  const kept = [1, 2].map(() => {
    const outputs = createOutputs(room);
    outputs.add({ seq: 1, type: 'display', mime: { 'text/html': 'x'.repeat(200_000) } });
    return outputs.list().map(({ type }) => type);
  });
  expect(kept).toEqual([['display'], ['truncated']]);
});
