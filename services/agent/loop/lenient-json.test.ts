import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseLenient } from './lenient-json.ts';

test('valid JSON is read as JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const text = JSON.stringify(value);
      expect(parseLenient(text)).toEqual(JSON.parse(text));
    }),
  );
});

test.each([
  ['a comma too many', '{"a": [1, 2,],}', { a: [1, 2] }],
  ['line breaks in a string', '{"code": "a\nb"}', { code: 'a\nb' }],
  ['single quotes', "{'code': 'it\\'s'}", { code: "it's" }],
  ['bare quotes in a string', '{"code": "print("a, b")"}', { code: 'print("a, b")' }],
  ['three quotes', '{"code": """print("a")\nprint(1)"""}', { code: 'print("a")\nprint(1)' }],
  ['backticks', '{code: `a\n"b"`}', { code: 'a\n"b"' }],
  ['names without quotes and words of Python', '{a: True, b: None, c: nan}', { a: true, b: null, c: 'nan' }],
  ['an escape that JSON has not', '{"code": "re.sub(\'\\d\', 1)"}', { code: "re.sub('\\d', 1)" }],
  ['no bracket at the end', '{"a": {"b": "c"}', { a: { b: 'c' } }],
  [
    'a name that objects have',
    '{"__proto__": 1}',
    Object.defineProperty({}, '__proto__', { value: 1, enumerable: true }),
  ],
])('%s is read', (_what, text, value) => {
  expect(parseLenient(text)).toEqual(value);
});

test.each(['', '{"code": "print(1)', '{"code"', 'import os\nx = {}', '{} {}'])('%j is not a value', (text) => {
  expect(() => parseLenient(text)).toThrow(SyntaxError);
});

test('a hostile text is parsed or refused, without any other error', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('{', '}', '[', ']', '"', "'", '\\', ':', ',', 'a', '\n', 'u') }),
      (text) => {
        try {
          parseLenient(text);
        } catch (error) {
          expect(error).toBeInstanceOf(SyntaxError);
        }
      },
    ),
  );
});
