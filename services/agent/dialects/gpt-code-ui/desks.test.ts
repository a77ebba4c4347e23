import { expect, test } from 'vitest';
import { createDesks } from './desks.ts';
import { createResults } from './results.ts';

const picture = (megabytes: number) => 'x'.repeat(megabytes * 1024 * 1024);

const start = () => {
  let time = 0;
  const settled: string[] = [];
  let opened = 0;
  const desks = createDesks({
    now: () => time,
    maxSize: 50 * 1024 * 1024,
    open: (onSize) => {
      opened += 1;
      const name = `desk ${opened}`;
      return { ...createResults({ onSize }), name, settle: async () => void settled.push(name) };
    },
  });
  return {
    settled,
    of: (user: string) => desks.of({ tenant: 'default', user }),
    pass: (ms: number) => {
      time += ms;
    },
  };
};

test('who never polls keeps the newest pictures only', () => {
  const results = createResults();
  for (const name of ['a', 'b', 'c', 'd']) results.add('image/png', name + picture(10));
  expect(results.drain().map(({ value }) => value[0])).toEqual(['b', 'c', 'd']);
  results.add('image/png', picture(40));
  expect(results.drain()).toEqual([]);
});

test('what all keep together is bounded: those who have not come for longest lose theirs', () => {
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
  // Eve, who has not come for longest, keeps nothing.
  for (const user of ['ada', 'bob', 'dan']) of(user).add('image/png', picture(20));
  expect(['ada', 'bob'].map((user) => of(user).drain().length)).toEqual([0, 1]);
});

test('a desk that nobody has used for an hour is forgotten, and what is answered there ends', () => {
  const { of, pass, settled } = start();
  const ada = of('ada');
  of('bob');
  pass(3_000_000);
  expect(of('bob').name).toBe('desk 2');
  pass(1_000_000);
  expect(of('bob').name).toBe('desk 2');
  expect(settled).toEqual(['desk 1']);
  expect(ada.drain()).toEqual([]);
  expect(of('ada').name).toBe('desk 3');
});
