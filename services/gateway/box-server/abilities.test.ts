import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BoxConnection, type BoxConnections, createBoxConnections } from './connections.ts';

let folder: string;
let server: Server;
let connections: BoxConnections;
/** The health response of the box server, and the paths of the requests to it. */
let reported: Record<string, unknown> = {};
let requests: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-abilities-'));
  server = createServer((request, response) => {
    const path = request.url?.replace('/codebox/', '') ?? '';
    requests.push(path);
    response.setHeader('content-type', 'application/json');
    if (path === 'health')
      response.end(JSON.stringify({ status: 'ok', instance: 'i-1', languages: ['python'], ...reported }));
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
/** Opens a new connection to a box, whose server reports this. */
const connectAnew = (report: Record<string, unknown>) => {
  [reported, requests] = [report, []];
  connections.drop('i-1');
  return connections.to('i-1', address());
};

const throughTunnel = (box: BoxConnection) =>
  new Promise((_, failed) => box.tunnels.request(80, {}, false).once('error', failed).end());

test('an ability that the box server does not list is refused without a request to it', async () => {
  const box = connectAnew({ api: 1, abilities: ['search'] });
  const { signal } = new AbortController();
  const calls = [box.checkpoint(signal), box.watch('?path=', signal), box.terminals(), throughTunnel(box)];
  for (const call of await Promise.allSettled(calls))
    expect(call).toMatchObject({ status: 'rejected', reason: { code: 'conflict' } });
  await expect(box.terminals()).rejects.toThrow(
    'This box cannot open terminals: the box server of its image does not support it.',
  );
  expect(new Set(requests)).toEqual(new Set(['health']));
});

test('a listed ability is used, and so is every ability of a server without a list', async () => {
  for (const report of [{ api: 1, abilities: ['terminals'] }, {}]) {
    const box = connectAnew(report);
    expect([await box.terminals(), await box.terminals()]).toEqual([[], []]);
    expect(requests).toEqual(['health', 'terminals', 'terminals']);
  }
});

test('only a box server that lists it has confined its box', async () => {
  for (const [report, isConfined] of [
    [{ abilities: ['confined'] }, true],
    [{ abilities: ['search'] }, false],
    [{}, false],
  ] as const)
    expect(await connectAnew(report).isConfined()).toBe(isConfined);
});

test('the languages of a box are read once, however often they are used', async () => {
  const box = connectAnew({ languages: ['sql', 'python'] });
  expect([await box.languages(), await box.languages()]).toEqual([
    ['sql', 'python'],
    ['sql', 'python'],
  ]);
  expect(requests).toEqual(['health']);
});

test.each([[['not a name']], [[]], [Array.from({ length: 101 }, (_, index) => `l${index}`)], ['python'], [undefined]])(
  'a box server whose languages make no sense is not used: %j',
  async (languages) => {
    await expect(connectAnew({ languages }).languages()).rejects.toMatchObject({ code: 'unavailable' });
  },
);

test.each([
  [2, 'update this gateway'],
  [0, 'rebuild the image'],
])('an instance with a box server of API %i is refused with the remedy', async (api, remedy) => {
  const health = connectAnew({ api, abilities: [] }).health(AbortSignal.timeout(30_000));
  await expect(health).rejects.toMatchObject({
    code: 'unavailable',
    message: `The image of the box has a box server with API version ${api}, but this gateway needs 1: ${remedy}.`,
  });
  expect(requests).toEqual(['health']);
});
