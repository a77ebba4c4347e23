import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Hono } from 'hono';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { HttpEnv } from '../env.ts';
import { serveUpgrades } from './upgrade.ts';

const refusalMs = 1000;
let server: Server;
let cut: () => void;
const app = new Hono<HttpEnv>();
app.get('/slow', async (c) => {
  await sleep(2 * refusalMs);
  return c.text('thought about it', 403);
});
app.get('/long', (c) => c.body(new Uint8Array(64 * 1024 * 1024), 403));

beforeEach(async () => {
  server = createServer();
  cut = serveUpgrades(server, app, { refusalMs });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => {
  cut();
  server.close();
});

const openHandshake = (path: string) => {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  return socket;
};

test('a slow handshake is not cut, while a refusal that is not read is', async () => {
  const isCut = once(server, 'upgrade').then(([, stream]) => once(stream, 'close'));
  const deaf = openHandshake('/long').pause();
  let text = '';
  for await (const chunk of openHandshake('/slow')) text += chunk;
  expect(text).toMatch(/^HTTP\/1\.1 403 .*thought about it/s);
  await isCut;
  deaf.destroy();
}, 60_000);
