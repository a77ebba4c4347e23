import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Hono } from 'hono';
import { expect, test, vi } from 'vitest';
import { smallJson } from '../../json/json-bounds.ts';
import type { HttpEnv } from '../env.ts';
import { asCodeBoxError, problemResponse } from '../problems/problem.ts';
import { listen } from '../server/server.ts';
import { readBytes } from './body.ts';
import { boundHeldBytes } from './held-bytes.ts';

/** A server that keeps the body of a request until `let go`, with room for 300 bytes, and 200 of each caller. */
const serve = async () => {
  const ends: (() => void)[] = [];
  const app = new Hono<HttpEnv>();
  app.onError((error, c) => problemResponse(c, asCodeBoxError(error)));
  app.use(boundHeldBytes((c) => c.req.header('x-caller'), { most: 300, mostOfOne: 200 }));
  app.post('/now', async (c) => c.json((await readBytes(c, smallJson.bytes)).length));
  app.post('/later', async (c) => {
    const { length } = await readBytes(c, smallJson.bytes);
    await new Promise<void>((end) => ends.push(end));
    return c.json(length);
  });
  const server = await listen(app, '127.0.0.1', 0);

  /** Sends the head of a request and the first bytes of its body. */
  const begin = (path: string, caller: string, bytes: number): ClientRequest => {
    const headers = { 'x-caller': caller, 'transfer-encoding': 'chunked' };
    const sent = request({ port: server.port, path, method: 'POST', agent: false, headers });
    sent.on('error', () => {});
    sent.write('x'.repeat(bytes));
    return sent;
  };
  const statusOf = async (sent: ClientRequest) => {
    const [response] = (await once(sent.end(), 'response')) as [IncomingMessage];
    response.resume();
    return [response.statusCode, response.headers['retry-after']];
  };
  const send = (caller: string, bytes: number) => statusOf(begin('/now', caller, bytes));
  return { ends, begin, send, statusOf, close: () => server.close(0) };
};

const ok = [200, undefined];
const tooMany = [429, '5'];
const noRoom = [503, '5'];

test('bodies that are still being received leave a caller its share and all callers the whole', async () => {
  const { begin, send, statusOf, close } = await serve();
  const first = begin('/now', 'one', 150);
  await vi.waitFor(async () => expect(await send('one', 60)).toEqual(tooMany));
  expect(await send('one', 50)).toEqual(ok);
  const second = begin('/now', 'two', 100);
  await vi.waitFor(async () => expect(await send('three', 60)).toEqual(noRoom));
  expect(await send('three', 50)).toEqual(ok);
  // What was admitted ends as usual, and makes room.
  expect(await statusOf(first)).toEqual(ok);
  await vi.waitFor(async () => expect(await send('one', 200)).toEqual(ok));
  // A client that leaves makes room too.
  second.destroy();
  await vi.waitFor(async () => expect(await send('three', 200)).toEqual(ok));
  await close();
});

test('a body counts until its handler is done, even if the client has left', async () => {
  const { ends, begin, send, close } = await serve();
  const left = begin('/later', 'one', 150).end();
  await vi.waitUntil(() => ends.length === 1);
  left.destroy();
  await new Promise((later) => setTimeout(later, 50));
  expect(await send('one', 60)).toEqual(tooMany);
  ends[0]?.();
  await vi.waitFor(async () => expect(await send('one', 200)).toEqual(ok));
  await close();
});

test('a refused body takes no room', async () => {
  const { send, close } = await serve();
  for (let n = 0; n < 10; n++) expect(await send('one', 201)).toEqual(tooMany);
  await vi.waitFor(async () => expect(await send('one', 200)).toEqual(ok));
  await close();
});
