import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { createStartSlots } from './start-slots.ts';

test('all callers that name the same place share its slots, and each gets its turn', async () => {
  const place = randomUUID();
  // These two stand for two processes: they share only sockets of the kernel.
  const users = [createStartSlots({ place, count: 2 }), createStartSlots({ place, count: 2 })];
  let [running, most, done] = [0, 0, 0];
  const start = async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((next) => setTimeout(next, 5));
    running -= 1;
    done += 1;
  };
  const signal = AbortSignal.timeout(60_000);
  await Promise.all(Array.from({ length: 12 }, (_, n) => users[n % 2]?.(signal, start)));
  expect({ most, done }).toEqual({ most: 2, done: 12 });
});

test('a waiter that gives up leaves the slots to the others', async () => {
  const slots = createStartSlots({ place: randomUUID(), count: 1 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const signal = AbortSignal.timeout(60_000);
  const first = slots(signal, () => promise);
  const second = slots(AbortSignal.abort(new Error('gone')), async () => {});
  await expect(second).rejects.toThrow('gone');
  resolve();
  await first;
  expect(await slots(signal, async () => 'mine')).toBe('mine');
});

test('a start that leaves its slot early lets the next one begin, and still has its result', async () => {
  const slots = createStartSlots({ place: randomUUID(), count: 1 });
  const { promise, resolve } = Promise.withResolvers<string>();
  const signal = AbortSignal.timeout(60_000);
  const first = slots(signal, (leave) => {
    leave();
    return promise;
  });
  expect(await slots(signal, async () => 'second')).toBe('second');
  resolve('first');
  expect(await first).toBe('first');
});
