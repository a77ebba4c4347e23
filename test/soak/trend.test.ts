import { expect, test } from 'vitest';
import { growth } from './trend.ts';

const readings = (valueAt: (n: number) => number) =>
  Array.from({ length: 90 }, (_, n) => ({ atMs: 1_000_000 + n * 500, value: valueAt(n) }));

test('a small leak per box has a trend, however noisy the readings', () => {
  expect(growth(readings((n) => 150 + n + (n % 7) * 5))).toBeGreaterThan(50);
});

test('readings that oscillate, rise only at the start or have one peak have no trend', () => {
  expect(Math.abs(growth(readings((n) => 150 + (n % 10) * 3)))).toBeLessThan(5);
  expect(growth(readings((n) => (n < 30 ? 100 + n : 130)))).toBe(0);
  expect(Math.abs(growth(readings((n) => (n === 60 ? 250 : 150))))).toBeLessThan(5);
});

test('too few readings throw an error', () => {
  expect(() => growth([])).toThrow('no readings');
  expect(() => growth(readings(() => 1).slice(0, 3))).toThrow('no trend');
});
