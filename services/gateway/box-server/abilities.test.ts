import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BoxConnection, type BoxConnections, createBoxConnections } from './connections.ts';

let folder: string;
let server: Server;
let connections: BoxConnections;
/** What the box server says of itself, and what it was asked. */
let says: Record<string, unknown> = {};
let asked: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-abilities-'));
  server = createServer((request, response) => {
    const path = request.url?.replace('/codebox/', '') ?? '';
    asked.push(path);
    response.setHeader('content-type', 'application/json');
    if (path === 'health') response.end(JSON.stringify({ status: 'ok', instance: 'i-1', ...says }));
    else response.end('{"items":[],"nextCursor":null,"truncated":false}');
  });
  await new Promise<void>((listening) => server.listen(join(folder, 'box.sock'), listening));
  connections = createBoxConnections({ secret: 'a secret' });
});
afterAll(async () => {
  await connections?.close();
  server?.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true });
});

const address = () => `unix:${join(folder, 'box.sock')}`;
/** A box that has just been met. */
const meet = (said: Record<string, unknown>) => {
  [says, asked] = [said, []];
  connections.drop('i-1');
  return connections.to('i-1', address());
};

const throughTunnel = (box: BoxConnection) =>
  new Promise((_, failed) => box.tunnels.request(80, {}, false).once('error', failed).end());

test('what a box server does not list is refused in words, and it is not asked for it', async () => {
  const box = meet({ api: 1, abilities: ['search'] });
  const { signal } = new AbortController();
  const calls = [box.checkpoint(signal), box.watch('?path=', signal), box.terminals(), throughTunnel(box)];
  for (const call of await Promise.allSettled(calls))
    expect(call).toMatchObject({ status: 'rejected', reason: { code: 'conflict' } });
  await expect(box.terminals()).rejects.toThrow(
    'This box cannot open terminals: the box server of its image does not offer that.',
  );
  expect(new Set(asked)).toEqual(new Set(['health']));
});

test('what it lists is asked for, and of a server that lists nothing everything', async () => {
  for (const said of [{ api: 1, abilities: ['terminals'] }, {}]) {
    const box = meet(said);
    expect([await box.terminals(), await box.terminals()]).toEqual([[], []]);
    expect(asked).toEqual(['health', 'terminals', 'terminals']);
  }
});

test.each([
  [2, 'update this gateway'],
  [0, 'build the image anew'],
])('an instance with a box server of API %i is refused, with what to do about it', async (api, mend) => {
  const health = meet({ api, abilities: [] }).health(AbortSignal.timeout(30_000));
  await expect(health).rejects.toMatchObject({
    code: 'unavailable',
    message: `The image of the box brings a box server of API ${api}, and this gateway needs 1: ${mend}.`,
  });
  expect(asked).toEqual(['health']);
});
