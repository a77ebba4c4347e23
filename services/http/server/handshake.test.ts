import { once } from 'node:events';
import { Hono } from 'hono';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Peer } from '../../websockets/peer.ts';
import { boundHeldBytes } from '../bodies/held-bytes.ts';
import type { HttpEnv } from '../env.ts';
import { acceptPeer } from './handshake.ts';
import { listen } from './server.ts';

const KiB = 1024;
const later = [1013, 'Too much is in memory for this message; send it again later.'];

/** A server with room for 300 KiB of messages, and 200 of each caller. */
let server: Awaited<ReturnType<typeof listen>>;
/** Called for each message. */
let handle: (peer: Peer, data: Buffer) => Promise<void> | undefined;
beforeEach(async () => {
  handle = (peer, data) => peer.send(String(data.length));
  const app = new Hono<HttpEnv>();
  app.use(boundHeldBytes((c) => c.req.header('x-caller'), { most: 300 * KiB, mostOfOne: 200 * KiB }));
  app.get('/', (c) =>
    acceptPeer(c, { maxMessageBytes: 1024 * KiB }, (peer) => peer.receive((data) => handle(peer, data))),
  );
  server = await listen(app, '127.0.0.1', 0);
});
afterEach(() => server.close(0));

/** Connects a caller whose messages begin with a frame that is not the last one. */
const connect = async (caller: string) => {
  const ws = new WebSocket(`ws://127.0.0.1:${server.port}`, { headers: { 'x-caller': caller } });
  await once(ws, 'open');
  const closed = once(ws, 'close').then(([code, reason]) => [code, String(reason)]);
  return {
    ws,
    closed,
    begin: (bytes: number) => ws.send(Buffer.alloc(bytes), { fin: false }),
    /** Resolves with how the message was received: its length, or the end of the connection. */
    send: (bytes: number) => {
      const reply = once(ws, 'message').then(([data]) => Number(data));
      ws.send(Buffer.alloc(bytes));
      return Promise.race([reply, closed]);
    },
  };
};

/** A connection that is refused takes a second. */
const eventually = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 20_000 });

test('messages that nobody completes leave a caller its share and all callers the whole', async () => {
  const first = await connect('one');
  first.begin(160 * KiB);
  const own = await connect('one');
  await eventually(async () => expect(await (await connect('one')).send(100 * KiB)).toEqual(later));
  expect(await own.send(50 * KiB)).toBe(50 * KiB);
  const other = await connect('two');
  other.begin(140 * KiB);
  await eventually(async () => expect(await (await connect('three')).send(100 * KiB)).toEqual(later));
  // Small messages pass, as many as one likes.
  const typing = await connect('three');
  for (let n = 0; n < 100; n++) expect(await typing.send(10)).toBe(10);
  for (const size of [16, 16, 30]) expect(await typing.send(size * KiB)).toBe(size * KiB);
  // What was admitted is completed as usual, and makes room; so does a client that leaves.
  expect(await first.send(10)).toBe(160 * KiB + 10);
  other.ws.terminate();
  await eventually(async () => expect(await (await connect('three')).send(190 * KiB)).toBe(190 * KiB));
});

test('a message counts until it has been handled, and as long as it is held', async () => {
  const handled = Promise.withResolvers<void>();
  const releases: (() => void)[] = [];
  handle = async (peer, data) => {
    releases.push(peer.keep());
    await handled.promise;
    await peer.send(String(data.length));
  };
  const first = await connect('one');
  const reply = first.send(150 * KiB);
  const refusal = async () => expect(await (await connect('one')).send(100 * KiB)).toEqual(later);
  await eventually(refusal);
  handled.resolve();
  expect(await reply).toBe(150 * KiB);
  await refusal();
  for (const release of releases) release();
  await eventually(async () => expect(await (await connect('one')).send(100 * KiB)).toBe(100 * KiB));
});

test('pings between messages take no room, and those in the middle of one do', async () => {
  const { ws, begin, send } = await connect('one');
  let pongs = 0;
  ws.on('pong', () => {
    pongs += 1;
  });
  const ping = async () => {
    pongs = 0;
    for (let sent = 10; sent <= 500; sent += 10) {
      for (let n = 0; n < 10; n++) ws.ping(Buffer.alloc(100));
      await vi.waitUntil(() => pongs === sent, { interval: 1 });
    }
  };
  begin(10);
  expect(await send(10)).toBe(20);
  await ping();
  expect(await (await connect('one')).send(200 * KiB)).toBe(200 * KiB);
  begin(10);
  await ping();
  await eventually(async () => expect(await (await connect('one')).send(200 * KiB)).toEqual(later));
  expect(await send(10)).toBe(20);
});

test('what comes after a message that is too long takes no room', async () => {
  const { ws, closed } = await connect('one');
  ws.send(Buffer.alloc(1200 * KiB));
  expect(await (await connect('one')).send(200 * KiB)).toBe(200 * KiB);
  expect((await closed)[0]).toBe(1009);
});

test('a caller who becomes known later takes the room of that name', async () => {
  let caller: string | undefined;
  const app = new Hono<HttpEnv>();
  app.use(boundHeldBytes(() => caller, { most: 300 * KiB, mostOfOne: 200 * KiB }));
  let room: HttpEnv['Variables']['messageRoom'];
  app.get('/', (c) => {
    room = c.get('messageRoom');
    return c.body(null);
  });
  await app.request('/');
  const other = room;
  await app.request('/');
  expect(other?.take(150)).toBe(true);
  expect(room?.take(150 * KiB)).toBe(true);
  expect(room?.take(100 * KiB)).toBe(false);
  caller = 'known';
  expect(room?.take(10 * KiB)).toBe(true);
  caller = undefined;
  expect(other?.take(150 * KiB)).toBe(false);
  room?.give(160 * KiB);
  expect(other?.take(190 * KiB)).toBe(true);
});

test('nothing more is read of a connection that is closed for its messages', async () => {
  const { ws, closed } = await connect('one');
  let sent = 0;
  const flood = (async () => {
    for (; sent < 100 && ws.readyState === WebSocket.OPEN; sent++)
      await Promise.race([closed, new Promise((done) => ws.send(Buffer.alloc(900 * KiB), { fin: false }, done))]);
  })();
  expect(await closed).toEqual(later);
  await flood;
  expect(sent).toBeLessThan(20);
});
