import { describe, expect, test } from 'vitest';
import { parseAnsi } from './ansi.ts';

describe('terminal text', () => {
  test('has colours and styles until they are reset', () => {
    expect(parseAnsi('a\x1b[1;31mred\x1b[39m bold\x1b[0m end')).toMatchObject([
      { text: 'a', color: null, isBold: false },
      { text: 'red', color: 'var(--ansi-1)', isBold: true },
      { text: ' bold', color: null, isBold: true },
      { text: ' end', color: null, isBold: false },
    ]);
  });

  test('supports 256 and 16 million colours, and passes nothing else into a style', () => {
    const colors = (text: string) => parseAnsi(text).map(({ color, background }) => color ?? background);
    expect(colors('\x1b[38;5;196mx\x1b[48;2;1;2;999my')).toEqual(['rgb(255 0 0)', 'rgb(255 0 0)']);
    expect(parseAnsi('\x1b[48;2;1;2;999my')).toMatchObject([{ background: 'rgb(1 2 255)' }]);
    expect(colors('\x1b[38;5;244mx')).toEqual(['rgb(128 128 128)']);
    expect(colors('\x1b[38;5;9mx\x1b[94my')).toEqual(['var(--ansi-9)', 'var(--ansi-12)']);
  });

  test('drops sequences that move the cursor or set the window title', () => {
    const text = parseAnsi('\x1b[2J\x1b[?25la\x1b]0;title\x07b\x1b[1;1Hc').map((span) => span.text);
    expect(text.join('')).toBe('abc');
  });
});
