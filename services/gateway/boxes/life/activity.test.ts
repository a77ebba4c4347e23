import { expect, test } from 'vitest';
import { createActivity } from './activity.ts';

const setUp = (everyMs: number) => {
  const touched: string[][] = [];
  const ended = new Set<string>();
  const touch = async (ids: string[]) => {
    if (ids.length > 0) touched.push(ids);
    return ids.filter((id) => !ended.has(id));
  };
  return { touched, ended, activity: createActivity(touch, everyMs) };
};

test('a late use is not written beside one that is as young as uses that wait for the next flush', async () => {
  const { touched, ended, activity } = setUp(60_000);
  ended.add('c');
  await activity.writeLate(['a']);
  await activity.writeLate(['a', 'b', 'c']);
  // The use of c was not written, as it was not ready.
  await activity.writeLate(['a', 'b', 'c']);
  expect(touched).toEqual([['a'], ['b', 'c'], ['c']]);

  activity.note('b');
  await activity.flush();
  await activity.writeLate(['a', 'b']);
  expect(touched.slice(3)).toEqual([['b'], ['a']]);
});

test('a late use is written if the last one is older than that', async () => {
  const { touched, activity } = setUp(0);
  await activity.writeLate(['a']);
  await activity.writeLate(['a']);
  expect(touched).toEqual([['a'], ['a']]);
});
