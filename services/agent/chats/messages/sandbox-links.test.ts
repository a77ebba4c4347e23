import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createWholeLinks, withAddresses } from './sandbox-links.ts';

const render = (text: string) => withAddresses(text, (path) => `<${path}>`);

test.each([
  ['[a](sandbox:/mnt/data/a.csv).', '[a](<a.csv>).'],
  ['![a](sandbox:/mnt/data/b/c d (1).png "t")', '![a](<b/c d (1).png> "t")'],
  ['[a](<sandbox:/mnt/data/a b.csv>)', '[a](<<a b.csv>>)'],
  ['[a](sandbox:/mnt/data/a%20b.csv)', '[a](<a b.csv>)'],
  ['[a](sandbox:///mnt/data/a.csv) and [b](sandbox:mnt/data/b.csv)', '[a](<a.csv>) and [b](<b.csv>)'],
  ['See sandbox:/mnt/data/a.csv.', 'See <a.csv>.'],
  ['`sandbox:/mnt/data/a.csv`', '`<a.csv>`'],
  ['(sandbox:/mnt/data/a.csv)', '(<a.csv>)'],
])('%s becomes %s', (text, expected) => {
  expect(render(text)).toBe(expected);
});

test.each([
  'sandbox:/etc/passwd',
  '[a](sandbox:/mnt/data/../../etc/passwd)',
  '[a](sandbox:/mnt/data/)',
  'a sandbox: of sand',
  '[a](https://example.com/mnt/data/a.csv)',
])('text that names no file of the box stays unchanged: %s', (text) => {
  expect(render(text)).toBe(text);
});

test('however a text is cut into pieces, its links are found and nothing else changes', () => {
  const words = fc.constantFrom(
    '[a](sandbox:/mnt/data/a.csv)',
    'sandbox:/mnt/data/dir/b.png',
    'sandbox:/etc',
    'sand',
    ']',
    '](',
    '](x)',
    ' ',
    '\n',
    'text (more). ',
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 12 }), fc.array(fc.nat(9), { maxLength: 60 }), (parts, cuts) => {
      const text = parts.join('');
      const whole = createWholeLinks();
      let [at, seen, raw] = [0, '', ''];
      for (const cut of [...cuts, text.length]) {
        const piece = whole.next(text.slice(at, at + cut));
        at = Math.min(text.length, at + cut);
        raw += piece;
        seen += render(piece);
      }
      const rest = whole.flush();
      expect(raw + rest).toBe(text);
      expect(seen + render(rest)).toBe(render(text));
    }),
    { numRuns: 2000 },
  );
});

test('a link to the longest possible path arrives in one piece', () => {
  const path = `${'d/'.repeat(2045)}ab.csv`;
  const whole = createWholeLinks();
  const pieces = [...`[a](sandbox:/mnt/data/${path})`].map((mark) => whole.next(mark));
  expect(pieces.map(render).join('') + whole.flush()).toBe(`[a](<${path}>)`);
});
