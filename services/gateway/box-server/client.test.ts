import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { folderSchema } from '#contract';
import { readAnswer } from './answer.ts';
import { type BoxServerClient, createBoxServerClient } from './client.ts';

let folder: string;
let server: Server;
let client: BoxServerClient;
let left = 0;
const deadlineMs = 1000;

/** A byte now and then, so that silence never ends it. */
const drip = (answer: ServerResponse) => {
  const timer = setInterval(() => answer.write(' '), 200);
  answer.once('close', () => {
    clearInterval(timer);
    left += 1;
  });
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-client-'));
  server = createServer((request, answer) => {
    answer.writeHead(request.url?.endsWith('/refused') ? 404 : 200);
    drip(answer);
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

test('a box that drips the answer to a file call is given up', async () => {
  const listing = async () => readAnswer(folderSchema, (await client.file('GET', 'folder', {})).body, deadlineMs);
  const results = await Promise.allSettled([client.file('GET', 'refused', {}), listing()]);
  for (const result of results) expect(result).toMatchObject({ reason: { code: 'unavailable' } });
  await expect.poll(() => left).toBe(2);
});
