import { Readable } from 'node:stream';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import type { Env } from '../../http/env.ts';
import { respondWith } from './responses.ts';

test('HEAD leaves no response of the box open', async () => {
  const body = Readable.from(['{}']);
  const app = new Hono<Env>().get('/', (c) => respondWith(c, { status: 200, headers: {}, body }));
  const response = await app.request('/', { method: 'HEAD' });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json']);
  expect(body.destroyed).toBe(true);
});
