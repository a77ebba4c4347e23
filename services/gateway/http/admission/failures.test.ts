import { expect, test } from 'vitest';
import { createFailures } from './failures.ts';

const failTimes = (failures: ReturnType<typeof createFailures>, address: string, times: number) => {
  for (let i = 0; i < times; i++) failures.note(address);
};

test('an address with too many failures waits for the rest of its minute, and others do not', () => {
  let now = 0;
  const failures = createFailures(() => now);
  failTimes(failures, 'a', 59);
  expect(failures.waitSeconds('a')).toBeUndefined();
  now = 20_000;
  failTimes(failures, 'a', 1);
  expect([failures.waitSeconds('a'), failures.waitSeconds('b')]).toEqual([40, undefined]);
  now = 60_000;
  expect(failures.waitSeconds('a')).toBeUndefined();
});

test('beyond the maximum of addresses the oldest is evicted', () => {
  const failures = createFailures(() => 0);
  failTimes(failures, 'old', 60);
  for (let i = 0; i < 9999; i++) failures.note(`${i}`);
  expect(failures.waitSeconds('old')).toBe(60);
  failures.note('one more');
  expect(failures.waitSeconds('old')).toBeUndefined();
});
