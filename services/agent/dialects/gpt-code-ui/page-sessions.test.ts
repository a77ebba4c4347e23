import { expect, test } from 'vitest';
import { createPageSessions } from './page-sessions.ts';
import { createResults } from './results.ts';

const picture = (megabytes: number) => 'x'.repeat(megabytes * 1024 * 1024);

const start = () => {
  let time = 0;
  const settled: string[] = [];
  let opened = 0;
  const pageSessions = createPageSessions({
    now: () => time,
    maxSize: 50 * 1024 * 1024,
    open: (onSize) => {
      opened += 1;
      const name = `session ${opened}`;
      return { ...createResults({ onSize }), name, settle: async () => void settled.push(name) };
    },
  });
  return {
    settled,
    of: (user: string) => pageSessions.of({ tenant: 'default', user }),
    pass: (ms: number) => {
      time += ms;
    },
  };
};

test('a session that never polls keeps only the newest pictures', () => {
  const results = createResults();
  for (const name of ['a', 'b', 'c', 'd']) results.add('image/png', name + picture(10));
  expect(results.drain().map(({ value }) => value[0])).toEqual(['b', 'c', 'd']);
  results.add('image/png', picture(40));
  expect(results.drain()).toEqual([]);
});

test('all sessions share one bound: the least recently used ones lose their results', () => {
  const { of } = start();
  for (const user of ['ada', 'bob']) of(user).add('image/png', picture(20));
  of('ada');
  of('eve').add('image/png', picture(20));
  expect(
    ['ada', 'bob', 'eve'].map(
      (user) =>
        of(user)
          .drain()
          .filter(({ type }) => type === 'image/png').length,
    ),
  ).toEqual([1, 0, 1]);
  // Eve's session, the least recently used one, keeps nothing.
  for (const user of ['ada', 'bob', 'dan']) of(user).add('image/png', picture(20));
  expect(['ada', 'bob'].map((user) => of(user).drain().length)).toEqual([0, 1]);
});

test('a session that is unused for an hour is dropped, and its answer stops', () => {
  const { of, pass, settled } = start();
  const ada = of('ada');
  of('bob');
  pass(3_000_000);
  expect(of('bob').name).toBe('session 2');
  pass(1_000_000);
  expect(of('bob').name).toBe('session 2');
  expect(settled).toEqual(['session 1']);
  expect(ada.drain()).toEqual([]);
  expect(of('ada').name).toBe('session 3');
});
