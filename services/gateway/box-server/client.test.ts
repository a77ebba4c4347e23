import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { folderSchema } from '#contract';
import { type BoxServerClient, createBoxServerClient } from './client.ts';
import { readResponse } from './protocol/response.ts';

let folder: string;
let server: Server;
let client: BoxServerClient;
let closed = 0;
const deadlineMs = 1000;

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
    response.writeHead(request.url?.endsWith('/refused') ? 404 : 200);
    drip(response);
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

test('a box that trickles the response to a file call times out', async () => {
  const listing = async () => readResponse(folderSchema, (await client.file('GET', 'folder', {})).body, deadlineMs);
  const results = await Promise.allSettled([client.file('GET', 'refused', {}), listing()]);
  for (const result of results) expect(result).toMatchObject({ reason: { code: 'unavailable' } });
  await expect.poll(() => closed).toBe(2);
});
