import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { openBoxWebSocket } from './box-websocket.ts';

let folder: string;
let server: Server;
let sockets: WebSocketServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-websocket-'));
  server = createServer();
  sockets = new WebSocketServer({ server });
  await once(server.listen(join(folder, 'box.sock')), 'listening');
});
afterAll(async () => {
  sockets.close();
  for (const socket of sockets.clients) socket.terminate();
  await once(server.close(), 'close');
  await rm(folder, { recursive: true });
});

for (const untilReady of [false, true])
  test(`messages arrive after the box has answered pings, ${untilReady ? 'waiting until it is ready' : 'at once'}`, async () => {
    const connected = once(sockets, 'connection') as Promise<[WebSocket]>;
    const peer = await openBoxWebSocket(
      { instance: 'i-1', address: `unix:${join(folder, 'box.sock')}`, token: 'token' },
      { path: 'codebox/terminals/t-1/socket', maxMessageBytes: 1024, pingMs: 50, untilReady, missing: 'none' },
    );
    const [box] = await connected;
    const received: string[] = [];
    peer.receive((data) => void received.push(data.toString()));
    await sleep(200);
    box.send('after pings');
    await expect.poll(() => received).toEqual(['after pings']);
    peer.close(1000, '');
    await once(box, 'close');
  });
