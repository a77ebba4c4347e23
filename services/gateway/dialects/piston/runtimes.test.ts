import { expect, test } from 'vitest';
import type { Run } from '#contract';
import type { RouteParts } from '../../http/app.ts';
import { createRuntimes } from './runtimes.ts';

test('a list whose program was interrupted is neither returned nor kept', async () => {
  const results = [
    { status: 'timeout', stdout: 'python Python 3.11.2\n' },
    { status: 'ok', stdout: 'python Python 3.11.2\nbash GNU bash 5.2.15\n' },
  ];
  const catalog = { choose: () => ({ programs: {} }) } as unknown as RouteParts['catalog'];
  const runtimes = createRuntimes({ catalog, run: async () => results.shift() as Run });
  await expect(runtimes.list('one')).rejects.toMatchObject({ code: 'unavailable' });
  expect((await runtimes.list('other')).map(({ language }) => language)).toEqual(['python', 'bash']);
});
