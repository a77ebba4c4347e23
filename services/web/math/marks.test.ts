import { describe, expect, test } from 'vitest';
import { withMathMarks } from './marks.ts';

describe('marks of formulas', () => {
  test.each([
    ['It is \\(E = mc^2\\).', 'It is $$E = mc^2$$.'],
    ['So $x_1$ and $y$.', 'So $$x_1$$ and $$y$$.'],
    ['\\[\n  a\n  = b\n\\]', '$$\na\n= b\n$$'],
    ['$$a^2$$', '$$\na^2\n$$'],
    ['$$\na^2\n$$', '$$\na^2\n$$'],
    ['- one\n  \\[ a \\]', '- one\n  $$\n  a\n  $$'],
    ['Thus \\[ a \\] holds.', 'Thus $$a$$ holds.'],
    ['`a` and $b$ and ``c ` d`` and \\(e\\)', '`a` and $$b$$ and ``c ` d`` and $$e$$'],
    ['```\n$a$\n```\n$b$', '```\n$a$\n```\n$$b$$'],
    ['\\[ a', '\\[ a'],
  ])('%j is normalized to two dollars', (text, marked) => expect(withMathMarks(text)).toBe(marked));

  test.each([
    'It costs $5 and $10, or $5-$6, US$7 and $8.',
    '`$a$ and \\(b\\)`',
    '```\n$a$ and \\[b\\]\n```',
    '  ~~~\n$a$',
    '````\n```\n$a$\n````',
    'A \\$a$ and \\\\ and $ b $.',
    'export PATH=$HOME and $PATH',
    '\\(a\n\nb\\)',
    '$$ $$',
  ])('%j stays unchanged', (text) => expect(withMathMarks(text)).toBe(text));

  test('are found in linear time', () => {
    const pieces = [
      '\\[',
      '$$',
      '\\(',
      '\\)\\(',
      '$a',
      '`',
      '`` ` ',
      '``` ',
      '```\n',
      '~~~\n',
      ' ',
      '$ ',
      '\\',
      '\n\n',
      '$$\n',
      '\\[a\\] ',
    ];
    const { user } = process.cpuUsage();
    for (const piece of pieces) withMathMarks(piece.repeat(200_000 / piece.length));
    withMathMarks(Array.from({ length: 600 }, (_, n) => '`'.repeat(n)).join(' '));
    // 3 MB of input; a quadratic search took minutes.
    expect(process.cpuUsage().user - user).toBeLessThan(10_000_000);
  });
});
