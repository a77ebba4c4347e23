import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createShares } from './shares.ts';

/** Places for tasks that run until they are ended. */
const open = (options: Parameters<typeof createShares>[0]) => {
  const share = createShares(options);
  const running: { owner: string; end: () => void }[] = [];
  const add = (owner: string, count: number, signal = new AbortController().signal) => {
    for (let n = 0; n < count; n++)
      share(owner, signal, async () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        const task = { owner, end: resolve };
        running.push(task);
        await promise;
        running.splice(running.indexOf(task), 1);
      }).catch(() => {});
  };
  return {
    add,
    owners: async () => {
      await nextTurn();
      return running.map(({ owner }) => owner).join('');
    },
    end: (owner: string) => running.find((task) => task.owner === owner)?.end(),
  };
};

test('owners of long tasks leave places to others, and one alone does not get all of them', async () => {
  const { add, owners } = open({ places: 16, each: 4, kept: 4 });
  add('a', 9);
  expect(await owners()).toBe('aaaa');
  for (const owner of ['b', 'c', 'd', 'e', 'f']) add(owner, 9);
  expect(await owners()).toBe('aaaabbbbccccdef');
});

test('a free place goes to the owner with the fewest, then by turns, and never to a task that has given up', async () => {
  const { add, owners, end } = open({ places: 4, each: 4, kept: 0 });
  const left = new AbortController();
  add('a', 9);
  add('x', 1, left.signal);
  add('b', 2);
  add('c', 2);
  left.abort();
  const seen = [await owners()];
  for (let n = 0; n < 4; n++) {
    end('a');
    seen.push(await owners());
  }
  expect(seen).toEqual(['aaaa', 'aaab', 'aabc', 'abca', 'bcab']);
});

test('a task whose signal is aborted never runs, and a failed one frees its place', async () => {
  const share = createShares({ places: 1, each: 1, kept: 0 });
  const { signal } = new AbortController();
  await expect(share('a', AbortSignal.abort(), async () => 'ran')).rejects.toThrow('aborted');
  await expect(share('a', signal, () => Promise.reject(new Error('it broke')))).rejects.toThrow('it broke');
  expect(await share('b', signal, async () => 'ran')).toBe('ran');
});
