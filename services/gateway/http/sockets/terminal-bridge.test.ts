import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { createPeer } from '../../../websockets/peer.ts';
import { attachTerminal } from '../../box-server/transport/terminal-socket.ts';
import { bridgeTerminal } from './terminal-bridge.ts';

describe('a hostile box behind a terminal', () => {
  let folder: string;
  let front: Server;
  let back: Server;
  let clients: WebSocketServer;
  let boxes: WebSocketServer;
  const broken: unknown[] = [];
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'codebox-bridge-'));
    back = createServer().listen(join(folder, 'box.sock'));
    front = createServer().listen(0, '127.0.0.1');
    await Promise.all([once(back, 'listening'), once(front, 'listening')]);
    boxes = new WebSocketServer({ server: back });
    clients = new WebSocketServer({ server: front });
    broken.length = 0;
  });
  afterEach(async () => {
    for (const ws of [...clients.clients, ...boxes.clients]) ws.terminate();
    front.close();
    back.close();
    await rm(folder, { recursive: true, force: true });
  });

  const connect = async (): Promise<{ client: WebSocket; box: WebSocket }> => {
    const hasBox = once(boxes, 'connection');
    const hasClient = once(clients, 'connection');
    const client = new WebSocket(`ws://127.0.0.1:${(front.address() as AddressInfo).port}`);
    const peer = await attachTerminal(
      { instance: 'i-1', address: `unix:${join(folder, 'box.sock')}`, token: 'token' },
      'term-x',
    );
    const [[box], [accepted]] = (await Promise.all([hasBox, hasClient])) as [[WebSocket], [WebSocket]];
    const attached = {
      id: 'term-x',
      pid: undefined,
      peer,
      abandon: async () => {},
      causeOfLoss: async () => undefined,
    };
    bridgeTerminal(createPeer(accepted), attached, (error) => broken.push(error));
    if (client.readyState !== WebSocket.OPEN) await once(client, 'open');
    return { client, box };
  };

  test.each([
    ['invalid JSON', '{'],
    ['an unknown type', '{"type":"format_disk"}'],
    ['an absurd size', '{"type":"ready","cols":1e9,"rows":-1,"replayedBytes":0}'],
    ['an endless replay', '{"type":"ready","cols":80,"rows":24,"replayedBytes":1e15}'],
  ])('%s ends the connection and is not passed on', async (_, frame) => {
    const { client, box } = await connect();
    const seen: string[] = [];
    client.on('message', (data) => seen.push(data.toString()));
    const left = once(box, 'close');
    box.send(frame);
    const [code] = await once(client, 'close');
    expect(code).toBe(1011);
    expect(seen).toEqual([]);
    expect(broken).toHaveLength(1);
    await left;
  });

  test('unknown fields are removed and long texts cut', async () => {
    const { client, box } = await connect();
    box.send(JSON.stringify({ type: 'error', code: 'x'.repeat(1000), detail: 'd\0', secret: 1 }));
    const [data] = await once(client, 'message');
    expect(JSON.parse(String(data))).toEqual({ type: 'error', code: 'x'.repeat(64), detail: 'd\ufffd' });
  });

  test('an oversized message or the death of the box is reported to the client as unavailable', async () => {
    for (const fail of [(box: WebSocket) => box.send(Buffer.alloc(1024 * 1024)), (box: WebSocket) => box.terminate()]) {
      const { client, box } = await connect();
      const message = once(client, 'message');
      fail(box);
      expect(JSON.parse(String((await message)[0]))).toMatchObject({ type: 'error', code: 'unavailable' });
      expect((await once(client, 'close'))[0]).toBe(1013);
    }
  });

  test('a box that reads no input exerts back pressure on the client', async () => {
    const { client, box } = await connect();
    box.pause();
    const block = Buffer.alloc(64 * 1024);
    for (let n = 0; n < 400; n++) client.send(block);
    const isStuck = async () => {
      for (let last = -1; last !== client.bufferedAmount; ) {
        last = client.bufferedAmount;
        await new Promise((done) => setTimeout(done, 200));
      }
    };
    await isStuck();
    expect(client.bufferedAmount).toBeGreaterThan(1024 * 1024);
    box.resume();
    while (client.bufferedAmount > 0) await new Promise((done) => setTimeout(done, 20));
  });

  test('a redirect instead of a handshake is not followed', async () => {
    back.removeAllListeners('upgrade');
    back.on('upgrade', (_request, socket) =>
      socket.end('HTTP/1.1 302 Found\r\nLocation: ws://169.254.169.254/\r\nContent-Length: 0\r\n\r\n'),
    );
    const refused = attachTerminal(
      { instance: 'i-1', address: `unix:${join(folder, 'box.sock')}`, token: 'token' },
      'term-x',
    );
    await expect(refused).rejects.toMatchObject({ code: 'unavailable' });
  });
});
