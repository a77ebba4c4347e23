import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFences } from './fences.ts';

const languageOf = (name: string) => (name === 'python' || name === 'py' ? 'python' : undefined);

/** The result of a text that arrives in these pieces. */
const read = (pieces: readonly string[]) => {
  const fences = createFences(languageOf);
  let text = '';
  for (const piece of pieces) {
    const found = fences.add(piece);
    text += found.text;
    if (found.block) return { text, block: found.block };
  }
  const rest = fences.end();
  return { text: text + rest.text, block: rest.block };
};

const inPieces = (text: string, sizes: readonly number[]): string[] => {
  const pieces: string[] = [];
  for (let at = 0, index = 0; at < text.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    pieces.push(text.slice(at, at + size));
    at += size;
  }
  return pieces;
};

test.each([
  ['a block', 'Look:\n```python\nprint(1)\n```\nand 43', 'Look:\n', 'print(1)'],
  ['a short name', '```py\n1\n```', '', '1'],
  ['a block without an end', 'Look:\n```python\nprint(1)\nprint(2)', 'Look:\n', 'print(1)\nprint(2)'],
  ['a block of tildes with backticks in it', '~~~python\n"""```\n"""\n~~~\n', '', '"""```\n"""'],
  ['a longer fence', '````python\n```\n````\n', '', '```'],
  ['a block after one that is shown', '```text\nx\n```\n```python\n1\n```\n', '```text\nx\n```\n', '1'],
  ['a block with blank lines', '```python\n\na\n\nb\n```\n', '', '\na\n\nb'],
])('%s is found, however it arrives', (_what, text, expected, code) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (sizes) => {
      expect(read(inPieces(text, sizes))).toEqual({ text: expected, block: { language: 'python', code } });
    }),
  );
});

test.each([
  'No code.',
  'Inline `x` and ```python in a line``` too.',
  '```text\n```python\n1\n```\n',
  '```\nplain\n```',
  '',
])('%j is plain text, however it arrives', (text) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (sizes) => {
      expect(read(inPieces(text, sizes))).toEqual({ text, block: undefined });
    }),
  );
});

test('text is passed on before its line ends', () => {
  expect(createFences(languageOf).add('Hello').text).toBe('Hello');
});
