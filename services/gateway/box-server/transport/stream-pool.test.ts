import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test, vi } from 'vitest';
import { createStreamPool } from './stream-pool.ts';

test('a request beyond the bound is refused at once, until a response has been read or left', async () => {
  const server = createServer((request, response) => {
    response.write('begun');
    if (request.url === '/whole') response.end();
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const pool = createStreamPool({}, 2);
  const ask = (path: string) => pool.request({ origin, path, method: 'GET' });
  const [endless, whole] = [await ask('/endless'), await ask('/whole')];
  await expect(ask('/whole')).rejects.toMatchObject({ code: 'too_many_requests' });
  await whole.body.text();
  const next = await vi.waitFor(() => ask('/endless'));
  await expect(ask('/whole')).rejects.toMatchObject({ code: 'too_many_requests' });
  next.body.destroy();
  endless.body.destroy();
  await expect.poll(async () => (await ask('/whole')).body.text()).toBe('begun');
  await pool.destroy();
  await expect(ask('/whole')).rejects.toThrow('destroyed');
  await new Promise((closed) => server.close(closed));
});
