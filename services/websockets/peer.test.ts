import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { createPeer, type Peer, type PeerOptions } from './peer.ts';

describe('the other end of a WebSocket', () => {
  let server: Server;
  let sockets: WebSocketServer;
  beforeEach(async () => {
    server = createServer().listen(0, '127.0.0.1');
    sockets = new WebSocketServer({ server, perMessageDeflate: false });
    await once(server, 'listening');
  });
  afterEach(() => {
    for (const ws of sockets.clients) ws.terminate();
    sockets.close();
    server.close();
  });

  const connect = async (options: PeerOptions, clientOptions = {}): Promise<{ peer: Peer; client: WebSocket }> => {
    const port = (server.address() as AddressInfo).port;
    const accepted = once(sockets, 'connection');
    const client = new WebSocket(`ws://127.0.0.1:${port}`, clientOptions);
    const [ws] = (await accepted) as [WebSocket];
    await once(client, 'open');
    return { peer: createPeer(ws, options), client };
  };

  test('is disconnected when it does not reply to pings, and stays otherwise', async () => {
    // Longer than a busy machine delays this process, which runs both ends.
    const pingMs = 500;
    const alive = await connect({ pingMs });
    const silent = await connect({ pingMs }, { autoPong: false });
    while (!silent.peer.closed.aborted) await sleep(10);
    await sleep(pingMs);
    expect(alive.peer.closed.aborted).toBe(false);
  });

  test('is disconnected when it does not complete a large message, and stays with a small one and while nothing is read', async () => {
    const room = { take: () => true, give: () => {} };
    const begin = async (bytes: number) => {
      const accepted = once(sockets, 'connection');
      const { port } = server.address() as AddressInfo;
      const client = new WebSocket(`ws://127.0.0.1:${port}`);
      const [ws, request] = (await accepted) as [WebSocket, IncomingMessage];
      await once(client, 'open');
      const peer = createPeer(ws, { pingMs: 500, stallMs: 3000, memory: { socket: request.socket, room } });
      const closed = once(client, 'close').then(([code, reason]) => [code, String(reason)]);
      client.send(Buffer.alloc(bytes), { fin: false });
      return { client, peer, closed };
    };
    const small = await begin(10 * 1024);
    const late = await begin(20 * 1024);
    const paused = await begin(20 * 1024);
    const go = Promise.withResolvers<void>();
    paused.peer.receive(() => go.promise);
    // In one chunk with the end of the first message, so that it has arrived before the pause.
    const { _socket: socket } = paused.client as unknown as { _socket: Socket };
    socket.cork();
    paused.client.send('');
    paused.client.send(Buffer.alloc(20 * 1024), { fin: false });
    socket.uncork();
    expect(await late.closed).toEqual([1008, 'A message took too long to arrive.']);
    await sleep(3000);
    go.resolve();
    await sleep(1000);
    expect([small.peer.isOpen(), paused.peer.isOpen()]).toEqual([true, true]);
    expect(await paused.closed).toEqual([1008, 'A message took too long to arrive.']);
  });

  test('makes the sender wait when it reads nothing, and is then closed with a reason', async () => {
    const { peer, client } = await connect({ stallMs: 200 });
    client.pause();
    const block = Buffer.alloc(64 * 1024);
    let sent = 0;
    const flood = (async () => {
      for (; sent < 2000; sent++) await peer.send(block);
    })();
    await sleep(100);
    const waiting = sent;
    // Only the kernel buffers and the high-water mark are filled, far less than the total.
    expect(waiting).toBeLessThan(500);
    await flood;
    const closed = once(client, 'close');
    client.resume();
    const [code, reason] = (await closed) as [number, Buffer];
    expect([code, reason.toString()]).toEqual([1013, 'It does not take what is sent to it.']);
  });

  test('receives everything in order when it is slow', async () => {
    const { peer, client } = await connect({});
    const count = 300;
    let seen = 0;
    client.on('message', (data: Buffer) => {
      expect(data.readUInt32BE()).toBe(seen++);
      if (seen % 20 !== 0) return;
      client.pause();
      setTimeout(() => client.resume(), 5);
    });
    for (let n = 0; n < count; n++) {
      const block = Buffer.alloc(64 * 1024);
      block.writeUInt32BE(n);
      await peer.send(block);
    }
    while (seen < count) await sleep(10);
  });

  test('messages are handled one after the other, and a busy handler holds the sender back', async () => {
    const { peer, client } = await connect({});
    let running = 0;
    let handled = 0;
    const gate = Promise.withResolvers<void>();
    peer.receive(async () => {
      expect(++running).toBe(1);
      await gate.promise;
      running -= 1;
      handled += 1;
    });
    const block = Buffer.alloc(64 * 1024);
    for (let n = 0; n < 400; n++) client.send(block);
    await sleep(200);
    expect(client.bufferedAmount).toBeGreaterThan(1024 * 1024);
    gate.resolve();
    while (handled < 400) await sleep(10);
    expect(client.bufferedAmount).toBe(0);
  });

  test('a connection that breaks ends every wait', async () => {
    const { peer, client } = await connect({});
    client.pause();
    const flood = (async () => {
      for (let n = 0; n < 500; n++) await peer.send(Buffer.alloc(64 * 1024));
    })();
    await sleep(50);
    (client as unknown as { _socket: Socket })._socket.resetAndDestroy();
    await flood;
    while (!peer.closed.aborted) await sleep(10);
  });

  test('messages that arrive at once are handled in batches, in order, with other work in between', async () => {
    const pieces: number[] = [0];
    const seen: number[] = [];
    const connected = await Promise.all(Array.from({ length: 4 }, () => connect({})));
    const count = 200;
    for (const { peer } of connected)
      peer.receive((data) => {
        const until = performance.now() + 1;
        while (performance.now() < until);
        seen.push(data.readUInt16BE());
        pieces.push((pieces.pop() ?? 0) + 1);
        return undefined;
      });
    const message = Buffer.alloc(2);
    for (let n = 0; n < count; n++) {
      message.writeUInt16BE(n);
      for (const { client } of connected) client.send(Buffer.from(message));
    }
    while (seen.length < count * connected.length) {
      await nextTurn();
      pieces.push(0);
    }
    expect(Math.max(...pieces)).toBeLessThan(40);
    for (let n = 0; n < count; n++) expect(seen.filter((value) => value === n)).toHaveLength(connected.length);
    expect(seen.filter((value) => value === 0).length).toBe(4);
    expect(seen.indexOf(count - 1)).toBeGreaterThan(seen.lastIndexOf(0));
  });

  test('is closed after too many useless messages, and later messages are not handled', async () => {
    const { peer, client } = await connect({});
    let handled = 0;
    peer.receive(async () => {
      handled += 1;
      peer.tolerate();
    });
    const closed = once(client, 'close');
    for (let n = 0; n < 5000; n++) client.send('{}');
    const [code, reason] = (await closed) as [number, Buffer];
    expect([code, reason.toString()]).toEqual([1008, 'Too many messages brought nothing.']);
    expect(handled).toBe(1001);
  });

  test('is closed once what it has sent before has been handled', async () => {
    const { peer, client } = await connect({});
    const handled: string[] = [];
    const seen: boolean[] = [];
    const go = Promise.withResolvers<void>();
    peer.receive(async (data) => {
      await go.promise;
      handled.push(data.toString());
      seen.push(peer.closed.aborted);
    });
    // All in one chunk of the connection.
    const { _socket: socket } = client as unknown as { _socket: Socket };
    socket.cork();
    for (const text of ['one', 'two', 'three']) client.send(text);
    client.close();
    socket.uncork();
    while (peer.isOpen()) await sleep(10);
    await sleep(50);
    go.resolve();
    while (!peer.closed.aborted) await sleep(10);
    expect(handled).toEqual(['one', 'two', 'three']);
    expect(seen).toEqual([false, false, false]);
  });
});
