import { expect, test } from 'vitest';
import { createBackground } from './background.ts';
import { createSaver } from './saver.ts';

test('a change during a write is saved by another write, and a state that stays is saved once', async () => {
  const background = createBackground(() => {});
  const saved: string[] = [];
  const writes: PromiseWithResolvers<void>[] = [];
  let state = '';
  const save = async () => {
    saved.push(state);
    const write = Promise.withResolvers<void>();
    writes.push(write);
    await write.promise;
  };
  const changed = createSaver({ background, what: 'save', everyMs: 1, save });
  const change = (to: string) => {
    state = to;
    changed();
  };
  change('a');
  change('b');
  await expect.poll(() => saved).toEqual(['b']);
  change('c');
  writes[0]?.resolve();
  await expect.poll(() => saved).toEqual(['b', 'c']);
  writes[1]?.resolve();
  await new Promise((later) => setTimeout(later, 20));
  expect(saved).toEqual(['b', 'c']);
  await background.drain(100);
});

test('a write that fails is repeated after the next change', async () => {
  const failed: unknown[] = [];
  const background = createBackground((_, error) => failed.push(error));
  let count = 0;
  const save = async () => {
    count += 1;
    if (count === 1) throw new Error('not now');
  };
  const changed = createSaver({ background, what: 'save', everyMs: 1, save });
  changed();
  await expect.poll(() => failed).toHaveLength(1);
  changed();
  await expect.poll(() => count).toBe(2);
  await background.drain(100);
});
