import { describe, expect, test } from 'vitest';
import { splitFinished } from './finished.ts';

describe('Markdown in progress', () => {
  test.each([
    ['one\n\ntwo', 'one\n', '\ntwo'],
    ['one', '', 'one'],
    ['a\n\n```py\nx\n\ny', 'a\n', '\n```py\nx\n\ny'],
    ['```py\nx\n\n```\n\nend', '```py\nx\n\n```\n', '\nend'],
    ['~~~~\n~~~\n\nx', '', '~~~~\n~~~\n\nx'],
  ])('is split where nothing before can change: %j', (text, finished, rest) => {
    expect(splitFinished(text)).toEqual([finished, rest]);
  });
});
