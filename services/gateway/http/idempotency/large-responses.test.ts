import { connect } from 'node:net';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { listen } from '../../../http/server/server.ts';
import type { Env } from '../env.ts';
import { createLargeResponses } from './large-responses.ts';

test('a box has a few whole responses in memory at a time, until clients have read them', async () => {
  const app = new Hono<Env>();
  const whole = createLargeResponses();
  const [all, further] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let [arrived, made] = [0, 0];
  app.get('/:box', async (c) => {
    arrived += 1;
    if (arrived === 6) all.resolve();
    return await whole(c, c.req.param('box'), async () => {
      made += 1;
      if (made === 6) further.resolve();
      return c.body('x'.repeat(32 * 1024 * 1024));
    });
  });
  const server = await listen(app, '127.0.0.1', 0);
  const deaf = Array.from({ length: 6 }, () => {
    const socket = connect(server.port, '127.0.0.1').pause();
    socket.write('GET /one HTTP/1.1\r\nHost: x\r\n\r\n');
    return socket;
  });
  await all.promise;
  // Another box is not delayed.
  expect((await (await fetch(`http://127.0.0.1:${server.port}/two`)).text()).length).toBe(32 * 1024 * 1024);
  expect(made).toBe(5);
  for (const socket of deaf.slice(0, 4)) socket.destroy();
  await further.promise;
  for (const socket of deaf) socket.destroy();
  await server.close(0);
}, 30_000);
