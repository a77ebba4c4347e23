import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findJsonFault } from './json-fault.ts';

test.each([
  ['{"code": "a = 1\nb = 2"}', '1:16', 'a line break inside a string, which JSON writes as \\n'],
  ['{"code": "if x:\n\ty"}', '1:16', 'line break'],
  ['{"code": "\tx"}', '1:11', 'a tab inside a string'],
  ['{"code": "re.sub(\'\\d\', x)"}', '1:19', 'a \\ inside a string, which JSON writes as \\\\'],
  ['{"code": "print("hi")"}', '1:18', 'a " inside a string is not written as \\"'],
  ['{"code": "x', '1:12', 'ends inside a string'],
  ["{'code': '1'}", '1:2', 'it has \' where JSON takes " only'],
  ['{"code": \'1\'}', '1:10', 'it has \' where JSON takes " only'],
  ['{"code": "1",}', '1:14', 'a comma behind the last item'],
  ['[1, 2,\n]', '2:1', 'a comma behind the last item'],
  ['{code: "1"}', '1:2', 'a key is not in double quotes'],
  ['{"code": print}', '1:10', 'a text is not in double quotes'],
  ['{"detach": True}', '1:12', 'JSON has no True, it writes true'],
  ['{"a": NaN}', '1:7', 'JSON has no NaN, it writes null'],
  ['{"a": 1 "b": 2}', '1:9', 'a comma is missing'],
  ['{"a" 1}', '1:6', 'a : is missing'],
  ['{"a": [1, 2}', '1:12', 'a bracket of the other kind'],
  ['{"a": 1 // one\n}', '1:9', 'JSON has no comments'],
  ['{"a":', '1:6', 'it ends before a bracket is closed'],
  ['{"a": 1}}', '1:9', 'there is more behind its end'],
  ['<!doctype html>', '1:1', 'it is HTML or XML'],
  ['code=print(1)&x=2', '1:1', 'it is a form'],
  ['--boundary\r\nContent-Disposition: form-data', '1:1', 'it is a form'],
  ['import os', '1:1', 'it is no JSON at all'],
  ['  \n ', '2:2', 'there is nothing in it'],
])('%j breaks at %s because %s', (text, place, cause) => {
  const fault = findJsonFault(text);
  expect(fault?.cause).toContain(cause);
  expect(`${fault?.line}:${fault?.column}`).toBe(place);
});

/** The offset of the error of JSON.parse, NaN if it names none; undefined for valid JSON. */
const parserOffset = (text: string): number | undefined => {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    const [, offset] = /at position (\d+)/.exec(String(error)) ?? [];
    return offset === undefined ? Number.NaN : Number(offset);
  }
};

test('a fault is found exactly if JSON.parse refuses the text', () => {
  const broken = fc
    .tuple(
      fc.json({ depthSize: 'medium' }),
      fc.nat(),
      fc.constantFrom('', '"', "'", ',', '}', ']', ':', '\\', '\n', '0', 'x', '-', '.'),
    )
    .map(([text, at, put]) => {
      const place = at % (text.length + 1);
      return text.slice(0, place) + put + text.slice(put === '' ? place + 1 : place);
    });
  fc.assert(
    fc.property(broken, (text) => {
      const offset = parserOffset(text);
      const fault = findJsonFault(text);
      expect(fault === undefined).toBe(offset === undefined);
      expect(fault?.cause ?? 'none').toMatch(/^(it|there|a|JSON|none)( |$)/);
    }),
    { numRuns: 2000 },
  );
  expect(findJsonFault('{"a": "\n"}')?.offset).toBe(parserOffset('{"a": "\n"}'));
});

test('a fault is found in any text of the maximum length', () => {
  const megabyte = 1024 * 1024;
  for (const text of [
    '['.repeat(megabyte),
    `"${'\\"'.repeat(megabyte / 2)}`,
    ' '.repeat(megabyte),
    `[${'\n'.repeat(megabyte)}`,
    `${'1'.repeat(megabyte)}x`,
  ])
    expect(findJsonFault(text)?.offset).toBeGreaterThanOrEqual(0);
});
