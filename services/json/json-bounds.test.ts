import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonExcess, largeJson } from './json-bounds.ts';

/** Counts keys and values, plus one for each empty container. */
const sizeOf = (value: unknown): number => {
  if (typeof value !== 'object' || value === null) return 1;
  const parts = Array.isArray(value) ? value : Object.entries(value).flat();
  return (
    1 +
    Math.max(
      1,
      parts.map(sizeOf).reduce((sum, size) => sum + size, 0),
    )
  );
};

test('keys and values are counted, whatever strings contain', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2), (value, indent) => {
      const text = Buffer.from(JSON.stringify(value, null, indent));
      const values = sizeOf(value);
      expect(jsonExcess(text, { bytes: 0, values })).toBeUndefined();
      expect(jsonExcess(text, { bytes: 0, values: values - 1 })).toBe(`has more than ${values - 1} keys and values`);
    }),
  );
});

test('long strings are skipped to their ends, wherever quotes and backslashes are in them', () => {
  const piece = fc.constantFrom('a'.repeat(61), 'b'.repeat(130), 'é', '"', '\\', '{', '[', ',', '\n');
  const string = fc.array(piece, { maxLength: 20 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(fc.array(string), (strings) => {
      const text = Buffer.from(JSON.stringify(strings));
      const values = sizeOf(strings);
      expect(jsonExcess(text, { bytes: 0, values })).toBeUndefined();
      expect(jsonExcess(text, { bytes: 0, values: values - 1 })).toBe(`has more than ${values - 1} keys and values`);
      // A text that breaks off in a string has as many values before it.
      expect(jsonExcess(text.subarray(0, -2), { bytes: 0, values })).toBeUndefined();
    }),
    { numRuns: 1000 },
  );
});

test('the nesting depth ignores brackets in strings and adjacent containers', () => {
  const deep = (levels: number) => Buffer.from(`${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`);
  expect(jsonExcess(deep(64), largeJson)).toBeUndefined();
  expect(jsonExcess(deep(66), largeJson)).toBe('is nested deeper than 64 levels');
  expect(jsonExcess(Buffer.from(JSON.stringify(Array(1000).fill('[{"\\'))), largeJson)).toBeUndefined();
  expect(jsonExcess(Buffer.from(JSON.stringify(Array(1000).fill([[]]))), largeJson)).toBeUndefined();
});
