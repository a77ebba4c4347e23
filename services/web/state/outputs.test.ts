import { describe, expect, test } from 'vitest';
import type { ExecutionEvent } from '#contract';
import { addOutput, cutAt, maxFirst, noOutputs, toOutputs } from './outputs.ts';

const out = (text: string): ExecutionEvent => ({ seq: 1, type: 'stdout', text });

describe('outputs', () => {
  test('consecutive text is one output, and another stream begins another', () => {
    const { items } = toOutputs([out('a'), out('b\n'), { seq: 3, type: 'stderr', text: 'c' }, out('d')]);
    expect(items).toMatchObject([
      { name: 'stdout', text: 'ab\n' },
      { name: 'stderr', text: 'c' },
      { name: 'stdout', text: 'd' },
    ]);
  });

  test('a carriage return overwrites its line, also across pieces, and the last state stays', () => {
    const { items } = toOutputs([out('first\n10 %\r'), out('20 %\r'), out('100 %'), out('\r\nend\r')]);
    expect(items).toMatchObject([{ text: 'first\n100 %\r\nend\r' }]);
    expect(toOutputs([out('\r10 %'), out('\r20 %'), out('\r30 %')]).items).toMatchObject([{ text: '30 %' }]);
  });

  test('endless text keeps its head and tail, and counts what is dropped', () => {
    let outputs = addOutput(noOutputs, out('head'));
    for (let piece = 0; piece < 200; piece++) outputs = addOutput(outputs, out(`${'x'.repeat(9999)}\n`));
    outputs = addOutput(outputs, out('tail'));
    const [stream] = outputs.items;
    if (stream?.type !== 'stream') throw new Error('no stream');
    expect(stream.text.length).toBeLessThan(250_000);
    expect(stream.text.length + stream.droppedCharacters).toBe(200 * 10_000 + 8);
    expect(stream.text.startsWith('head')).toBe(true);
    expect(stream.text.endsWith('tail')).toBe(true);
    expect(cutAt(stream)).toBe(50_000);
  });

  test('clear removes everything, at once or with the next output', () => {
    const some = toOutputs([out('old')]);
    expect(addOutput(some, { seq: 2, type: 'clear', wait: false }).items).toEqual([]);
    const waiting = addOutput(some, { seq: 2, type: 'clear', wait: true });
    expect(waiting.items).toHaveLength(1);
    expect(addOutput(waiting, out('new')).items).toMatchObject([{ text: 'new' }]);
  });

  test('an update changes the display that it names, and nothing else', () => {
    const mime = { 'text/plain': 'before' };
    const shown = toOutputs([
      { seq: 1, type: 'display', mime, displayId: 'a' },
      { seq: 2, type: 'display', mime },
    ]);
    const after = addOutput(shown, { seq: 3, type: 'display_update', displayId: 'a', mime: { 'text/plain': 'after' } });
    expect(after.items).toMatchObject([{ mime: { 'text/plain': 'after' } }, { mime }]);
  });

  test('of endless outputs the first and the last ones are kept with the last error, and the others counted', () => {
    const error: ExecutionEvent = { seq: 1, type: 'error', name: 'ValueError', value: '', traceback: [] };
    const lines = Array.from({ length: 2500 }, (_, line) => [
      out(`${line}\n`),
      { seq: 1, type: 'stderr', text: `${line}\n` } as const,
    ]).flat();
    const { items, leftOut } = toOutputs([error, ...lines, error, ...lines]);
    expect(items.length).toBe(200);
    expect(items.length + leftOut).toBe(2 * 5001);
    expect(items[maxFirst]).toMatchObject({ type: 'error' });
    expect(items.slice(-2)).toMatchObject([
      { name: 'stdout', text: '2499\n' },
      { name: 'stderr', text: '2499\n' },
    ]);
    const cleared = addOutput({ items, leftOut, clearsNext: true }, out('new'));
    expect(cleared).toEqual(toOutputs([out('new')]));
  });
});
