import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { folderSchema } from '#contract';
import { type BoxServerClient, createBoxServerClient } from './client.ts';
import { readResponse } from './protocol/response.ts';

let folder: string;
let server: Server;
let client: BoxServerClient;
let closed = 0;
let connections = 0;
const deadlineMs = 1000;

const whole: Record<string, object> = {
  '/codebox/health': { status: 'ok', instance: 'i-1', languages: ['python'] },
  '/codebox/executions/e-1': { seq: 1, type: 'done' },
};

/** Sends a byte now and then, so that the idle timeout never ends the response. */
const drip = (response: ServerResponse) => {
  const timer = setInterval(() => response.write(' '), 200);
  response.once('close', () => {
    clearInterval(timer);
    closed += 1;
  });
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-client-'));
  server = createServer((request, response) => {
    const body = whole[request.url ?? ''];
    if (body) return response.end(`${JSON.stringify(body)}\n`);
    response.writeHead(request.url?.endsWith('/refused') ? 404 : 200);
    drip(response);
  }).on('connection', () => {
    connections += 1;
  });
  const path = join(folder, 'box.sock');
  await new Promise<void>((listening) => server.listen(path, listening));
  client = createBoxServerClient({ instance: 'i-1', address: `unix:${path}`, token: 'token' }, undefined, deadlineMs);
});
afterAll(async () => {
  await client?.close();
  server?.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true });
});

test('the first run of a box uses the connection of its probe', async () => {
  const signal = AbortSignal.timeout(5000);
  await client.health(signal);
  // The connection is free a turn of the event loop after the response has been read.
  await setImmediate();
  await Array.fromAsync(await client.execute('e-1', { code: '1+1', timeoutMs: 1000 }, signal));
  expect(connections).toBe(1);
});

test('a box that trickles the response to a file call times out', async () => {
  const listing = async () => readResponse(folderSchema, (await client.file('GET', 'folder', {})).body, deadlineMs);
  const results = await Promise.allSettled([client.file('GET', 'refused', {}), listing()]);
  for (const result of results) expect(result).toMatchObject({ reason: { code: 'unavailable' } });
  await expect.poll(() => closed).toBe(2);
});
