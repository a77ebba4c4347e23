import { expect, test } from 'vitest';
import { createBreaker } from './breaker.ts';

test('after a failure the breaker refuses attempts for a growing pause, then admits one at a time', () => {
  let time = 0;
  const breaker = createBreaker({ firstPauseMs: 100, longestPauseMs: 300, now: () => time });
  expect([breaker.isOpen(), breaker.enter(), breaker.enter()]).toEqual([false, true, true]);
  expect(breaker.fail()).toBe(100);
  // This attempt was under way when the first one failed.
  expect(breaker.fail()).toBe(100);
  expect([breaker.isOpen(), breaker.enter()]).toEqual([true, false]);
  time = 100;
  expect([breaker.enter(), breaker.enter()]).toEqual([true, false]);
  expect(breaker.fail()).toBe(200);
  time = 299;
  expect(breaker.enter()).toBe(false);
  time = 300;
  expect(breaker.enter()).toBe(true);
  expect(breaker.fail()).toBe(300);
  time = 600;
  expect(breaker.enter()).toBe(true);
  breaker.leave();
  expect(breaker.enter()).toBe(true);
  breaker.succeed();
  expect([breaker.isOpen(), breaker.enter(), breaker.enter()]).toEqual([false, true, true]);
  expect(breaker.fail()).toBe(100);
});
