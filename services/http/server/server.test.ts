import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { ConfigurationError } from '../../configuration-error.ts';
import { streamEvents } from '../bodies/stream.ts';
import type { HttpEnv } from '../env.ts';
import { type HttpServer, listen } from './server.ts';

const unreadMs = 500;

async function* endless(leave: AbortController) {
  try {
    for (let seq = 1; ; seq++) yield { seq, type: 'stdout', text: 'x'.repeat(100_000) };
  } finally {
    leave.abort();
  }
}

test('a client that does not read a response or stream is disconnected, a client that waits for one is not', async () => {
  const app = new Hono<HttpEnv>();
  const { promise: whole, resolve } = Promise.withResolvers<unknown>();
  const leave = new AbortController();
  const left = once(leave.signal, 'abort');
  app.get('/whole', (c) => {
    if (c.env.outgoing) resolve(once(c.env.outgoing, 'close'));
    return c.body('x'.repeat(32 * 1024 * 1024));
  });
  app.get('/stream', (c) => {
    const stopping = new AbortController().signal;
    return streamEvents(c, { format: 'ndjson', events: endless(leave), leave, stopping, onError: () => {} });
  });
  app.get('/slow', async (c) => {
    await sleep(3 * unreadMs);
    return c.text('thought about it');
  });
  const server = await listen(app, '127.0.0.1', 0, { unreadMs });
  const deaf = ['/whole', '/stream'].map((path) => ask(server, path));
  expect(await (await fetch(`http://127.0.0.1:${server.port}/slow`)).text()).toBe('thought about it');
  await whole;
  await left;
  for (const socket of deaf) socket.destroy();
  await server.close(0);
}, 30_000);

/** Asks for `path` on a connection that does not read by itself. */
const ask = ({ port }: HttpServer, path: string) => {
  const socket = connect(port, '127.0.0.1').pause();
  socket.on('error', () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  return socket;
};

test('a client that sends blank lines instead of reading is disconnected, one that reads slowly is not', async () => {
  const app = new Hono<HttpEnv>();
  const closed: Record<string, boolean> = {};
  app.get('/:who', (c) => {
    c.env.outgoing?.once('close', () => {
      closed[c.req.param('who')] = true;
    });
    return c.body('x'.repeat(32 * 1024 * 1024));
  });
  const server = await listen(app, '127.0.0.1', 0, { unreadMs });
  const [deaf, slow] = [ask(server, '/deaf'), ask(server, '/slow')];
  const lines = setInterval(() => deaf.write('\r\n'), unreadMs / 10);
  let rest = 0;
  slow.on('data', (chunk) => {
    rest -= chunk.length;
    if (rest < 0) slow.pause();
  });
  for (let n = 0; n < 20; n++) {
    await sleep(unreadMs / 5);
    rest = 1024 * 1024;
    slow.resume();
  }
  clearInterval(lines);
  expect(closed).toEqual({ deaf: true });
  for (const socket of [deaf, slow]) socket.destroy();
  await server.close(0);
}, 30_000);

test('a port in use is an error of the configuration', async () => {
  const server = await listen(new Hono<HttpEnv>(), '127.0.0.1', 0);
  const second = listen(new Hono<HttpEnv>(), '127.0.0.1', server.port);
  await expect(second).rejects.toThrow(ConfigurationError);
  await expect(second).rejects.toThrow(`Port ${server.port} of 127.0.0.1 is in use`);
  await server.close(0);
});
