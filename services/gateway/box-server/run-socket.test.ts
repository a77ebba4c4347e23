import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type BoxServerClient, createBoxServerClient } from './client.ts';
import { createRunSocket, type SharedRun } from './run-socket.ts';

const deadlineMs = 1000;
const code = { code: '1+1', timeoutMs: 1000 };
const done = { seq: 1, type: 'done' };

let folder: string;
let server: Server;
let sockets: WebSocketServer;
let client: BoxServerClient;
let failures: string[] = [];
let requests: string[] = [];
let asked: { id: string; body: string }[] = [];
/** What the box replies to a run that shares its connection. */
let reply = (socket: WebSocket, id: string): void => socket.send(`${id} end\n${JSON.stringify(done)}\n`);
const [usual] = [reply];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-runs-'));
  server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const after = Number(/after=(\d+)/.exec(request.url ?? '')?.[1] ?? 0);
    response.end(`${JSON.stringify({ ...done, seq: after + 1 })}\n`);
  });
  sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) => {
    socket.on('message', (data) => {
      const [id = '', body = ''] = data.toString().split('\n', 2);
      asked.push({ id, body });
      reply(socket, id);
    });
  });
  await once(server.listen(join(folder, 'box.sock')), 'listening');
});
afterEach(async () => {
  await client.close();
  [requests, asked, reply] = [[], [], usual];
});
afterAll(async () => {
  sockets.close();
  for (const socket of sockets.clients) socket.terminate();
  server.closeAllConnections();
  await once(server.close(), 'close');
  await rm(folder, { recursive: true });
});

const run = async (id: string, signal = AbortSignal.timeout(5000), text = code.code) =>
  Array.fromAsync(await client.execute(id, { ...code, code: text }, signal, true));

const endpoint = () => ({ instance: 'i-1', address: `unix:${join(folder, 'box.sock')}`, token: 'token' });
const create = () => {
  client = createBoxServerClient(endpoint(), (failure) => failures.push(failure), deadlineMs);
};

/** A client whose runs share a connection. */
const connect = async () => {
  create();
  const opened = once(sockets, 'connection');
  await run('first');
  await run('second');
  await opened;
  await expect.poll(() => run('probe').then(() => asked.length)).toBe(1);
  [requests, asked, failures] = [[], [], []];
};

test('a box with a single run has no connection for runs', async () => {
  create();
  expect(await run('only')).toEqual([done]);
  await sleep(100);
  expect(sockets.clients.size).toBe(0);
});

test('runs that follow each other share a connection', async () => {
  await connect();
  const found = await Promise.all(['a', 'b', 'c'].map((id) => run(id)));
  expect(found).toEqual([[done], [done], [done]]);
  expect(asked.map(({ id, body }) => [id, JSON.parse(body)])).toEqual(['a', 'b', 'c'].map((id) => [id, code]));
  expect(requests).toEqual([]);
  expect(sockets.clients.size).toBe(1);
});

test('replies arrive in pieces and in any order, and each run has its own', async () => {
  await connect();
  const waiting: [WebSocket, string][] = [];
  reply = (socket, id) => {
    waiting.push([socket, id]);
    socket.send(`${id} more\n`);
    if (waiting.length < 2) return;
    for (const [socket, id] of waiting.reverse()) {
      socket.send(`${id} more\n\n{"seq":1,"type":"stdout","te`);
      socket.send(`${id} more\nxt":"${id}"}\n`);
      socket.send(`${id} end\n${JSON.stringify({ ...done, seq: 2 })}\n`);
    }
  };
  const [a, b] = await Promise.all([run('a'), run('b')]);
  expect(a).toEqual([
    { seq: 1, type: 'stdout', text: 'a' },
    { seq: 2, type: 'done' },
  ]);
  expect(b[0]).toMatchObject({ text: 'b' });
});

test('events that the box does not send are requested', async () => {
  await connect();
  reply = (socket, id) => {
    socket.send(`${id} more\n{"seq":1,"type":"stdout","text":"x"}\n`);
    socket.send(`${id} rest\n`);
  };
  expect(await run('long')).toEqual([
    { seq: 1, type: 'stdout', text: 'x' },
    { seq: 2, type: 'done' },
  ]);
  expect(requests).toEqual(['GET /codebox/executions/long/events?after=1']);
});

test('a long request, and runs beyond the bound, are requests of their own', async () => {
  await connect();
  expect(await run('long', undefined, 'x'.repeat(256 * 1024))).toEqual([done]);
  expect(requests).toEqual(['PUT /codebox/executions/long']);
  reply = () => {};
  const leave = new AbortController();
  const open = Array.from({ length: 64 }, (_, n) => run(`open-${n}`, leave.signal).catch(() => 'left'));
  await expect.poll(() => asked.length).toBe(64);
  expect(await run('beyond')).toEqual([done]);
  expect(requests.at(-1)).toBe('PUT /codebox/executions/beyond');
  leave.abort();
  expect(await Promise.all(open)).toEqual(open.map(() => 'left'));
});

test('runs that have ended and are not read count too', async () => {
  await connect();
  const signal = AbortSignal.timeout(5000);
  const unread = await Promise.all(
    Array.from({ length: 64 }, (_, n) => client.execute(`unread-${n}`, code, signal, true)),
  );
  expect(await run('beyond')).toEqual([done]);
  expect(requests).toEqual(['PUT /codebox/executions/beyond']);
  await Promise.all(unread.map((events) => Array.fromAsync(events)));
  expect(await run('again')).toEqual([done]);
  expect(requests).toHaveLength(1);
});

test('a caller that has left already sends no code', async () => {
  await connect();
  await expect(run('a', AbortSignal.abort())).rejects.toMatchObject({ code: 'unavailable' });
  expect(await run('b')).toEqual([done]);
  expect(asked.map(({ id }) => id)).toEqual(['b']);
});

test('a refusal is that of the box', async () => {
  await connect();
  reply = (socket, id) => socket.send(`${id} 404\n{"code":"not_found","detail":"no such context"}`);
  await expect(run('a')).rejects.toMatchObject({ code: 'not_found', message: 'no such context' });
  reply = (socket, id) => socket.send(`${id} 500\nno JSON`);
  await expect(run('b')).rejects.toMatchObject({ code: 'unavailable' });
  reply = usual;
  expect(await run('c')).toEqual([done]);
});

test('a box that does not accept a run in time is unavailable, and its late reply is dropped', async () => {
  await connect();
  let late = () => {};
  reply = (socket, id) => {
    late = () => socket.send(`${id} end\n${JSON.stringify(done)}\n`);
  };
  await expect(run('a')).rejects.toMatchObject({ code: 'unavailable', message: 'The box did not respond in time.' });
  late();
  reply = usual;
  expect(await run('b')).toEqual([done]);
  expect(requests).toEqual([]);
});

test('a reader that leaves ends nothing but its stream', async () => {
  await connect();
  const leave = new AbortController();
  let end = () => {};
  reply = (socket, id) => {
    socket.send(`${id} more\n{"seq":1,"type":"stdout","text":"x"}\n`);
    end = () => socket.send(`${id} end\n${JSON.stringify({ ...done, seq: 2 })}\n`);
  };
  const events = await client.execute('a', code, leave.signal, true);
  expect((await events.next()).value).toMatchObject({ seq: 1 });
  leave.abort();
  await expect(events.next()).rejects.toMatchObject({ code: 'unavailable' });
  end();
  reply = usual;
  expect(await run('b')).toEqual([done]);
  expect(requests).toEqual([]);
});

test('when the connection ends, its runs fail and the next one is a request', async () => {
  await connect();
  reply = (socket, id) => {
    socket.send(`${id} more\n{"seq":1,"type":"stdout","text":"x"}\n`);
    setTimeout(() => socket.terminate(), 50);
  };
  await expect(run('a', new AbortController().signal)).rejects.toMatchObject({ code: 'unavailable' });
  expect(failures).toEqual(['unreachable']);
  expect(await run('b')).toEqual([done]);
  expect(requests).toEqual(['PUT /codebox/executions/b']);
});

test('while the box closes the connection, the next run is a request', async () => {
  await connect();
  const [socket] = sockets.clients as Set<WebSocket & { _socket: Socket }>;
  // It begins to close, and does not go on.
  socket?._socket.pause();
  socket?._socket.write(Buffer.from([0x88, 0]));
  await sleep(100);
  expect(await run('a')).toEqual([done]);
  expect(requests).toEqual(['PUT /codebox/executions/a']);
  socket?._socket.resume();
  socket?.terminate();
});

const shared = (id: string, socket: ReturnType<typeof createRunSocket>) =>
  socket.run(id, JSON.stringify(code), AbortSignal.timeout(5000));

test('a run without replies fails, also when the box answers pings', async () => {
  create();
  const socket = createRunSocket(endpoint(), { deadlineMs, silenceMs: 500 });
  reply = (box, id) => box.send(`${id} more\n`);
  await shared('first', socket);
  const { lines } = (await vi.waitUntil(() => shared('a', socket))) as SharedRun;
  await expect(lines.toArray()).rejects.toThrow('Body Timeout');
  expect(sockets.clients.size).toBe(1);
  socket.close();
});

test('a connection without runs is closed, and what a run has sent can still be read', async () => {
  create();
  const socket = createRunSocket(endpoint(), { deadlineMs, silenceMs: 500, idleMs: 300 });
  await shared('first', socket);
  const { lines } = (await vi.waitUntil(() => shared('a', socket))) as SharedRun;
  expect(sockets.clients.size).toBe(1);
  await expect.poll(() => sockets.clients.size).toBe(0);
  await sleep(500);
  expect(Buffer.concat(await lines.toArray()).toString()).toBe(`${JSON.stringify(done)}\n`);
  expect(shared('later', socket)).toBe(undefined);
  socket.close();
});

test('closing the client fails its runs at once, which is no failure of the box', async () => {
  await connect();
  reply = (socket, id) => socket.send(`${id} more\n`);
  const events = await client.execute('a', code, new AbortController().signal, true);
  const failing = expect(events.next()).rejects.toMatchObject({ code: 'unavailable' });
  await client.close();
  await failing;
  expect(failures).toEqual([]);
});

const nonsense: [string, ...((id: string) => string)[]][] = [
  ['a reply to no run', () => 'other end\n'],
  ['a reply without a head', () => 'x'.repeat(1000)],
  ['an empty reply', () => ''],
  ['a head with more words', (id) => `${id} end now\n${JSON.stringify(done)}\n`],
  ['an unknown mark', (id) => `${id} maybe\n`],
  ['a refusal after events', (id) => `${id} more\n`, (id) => `${id} 404\n{"code":"not_found","detail":"none"}`],
  ['a reply too many', ...Array.from({ length: 260 }, () => (id: string) => `${id} more\n`)],
  ['a reply beyond what may wait', (id) => `${id} more\n${'\n'.repeat(257 * 1024 + 1)}`],
];
for (const [what, ...texts] of nonsense) {
  test(`${what} breaks the protocol, and the next run is a request`, async () => {
    await connect();
    reply = (socket, id) => {
      for (const text of texts) socket.send(text(id));
    };
    await expect(run('a')).rejects.toMatchObject({ code: 'unavailable', reason: 'protocol' });
    expect(await run('b')).toEqual([done]);
    expect(requests).toEqual(['PUT /codebox/executions/b']);
    await expect.poll(() => sockets.clients.size).toBe(0);
  });
}
