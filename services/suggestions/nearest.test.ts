import fc from 'fast-check';
import { expect, test } from 'vitest';
import { editsBetween, nearest } from './nearest.ts';

const keys = ['code', 'language', 'context', 'timeoutSeconds', 'cpuSeconds', 'env', 'autoInstall', 'detach'];
const limits = ['cpus', 'memoryMb', 'diskMb', 'pids', 'cpuSeconds'];

test.each([
  ['timeout', keys, 'timeoutSeconds'],
  ['timeout_seconds', keys, 'timeoutSeconds'],
  ['TimeoutSeconds', keys, 'timeoutSeconds'],
  ['tiemoutSeconds', keys, 'timeoutSeconds'],
  ['lang', keys, 'language'],
  ['langauge', keys, 'language'],
  ['cod', keys, 'code'],
  ['environment', keys, 'env'],
  ['cpu', limits, 'cpus'],
  ['memory', limits, 'memoryMb'],
  ['nonsense', keys, undefined],
  ['x', keys, undefined],
  ['', keys, undefined],
  ['__proto__', keys, undefined],
  ['constructor', keys, undefined],
  [`timeout${'x'.repeat(100)}`, keys, undefined],
])('%s is probably meant for %s', (given, known, name) => {
  expect(nearest(given, known)).toBe(name);
});

test('a known synonym takes precedence over similar spelling', () => {
  const synonyms = new Map([['script', ['code', 'command']]]);
  expect(nearest('script', keys, synonyms)).toBe('code');
  expect(nearest('Script', ['command'], synonyms)).toBe('command');
  expect(nearest('script', limits, synonyms)).toBeUndefined();
});

test('the edit distance is symmetric, zero only for equal texts, and bounded by the longer length', () => {
  const text = fc.string({ unit: 'binary', maxLength: 20 });
  fc.assert(
    fc.property(text, text, (one, other) => {
      const edits = editsBetween(one, other);
      expect(edits).toBe(editsBetween(other, one));
      expect(edits === 0).toBe(one === other);
      expect(edits).toBeLessThanOrEqual(Math.max(one.length, other.length));
      expect(edits).toBeGreaterThanOrEqual(Math.abs(one.length - other.length));
    }),
  );
  expect(editsBetween('tiem', 'time')).toBe(1);
  expect(editsBetween('kitten', 'sitting')).toBe(3);
});
