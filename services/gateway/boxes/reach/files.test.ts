import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBoxServerClient } from '../../box-server/client.ts';
import { createActivity } from '../life/activity.ts';
import type { ReachableBox } from '../life/directory.ts';
import { createFiles, type Files, NoSuchRange } from './files.ts';

let folder: string;
let server: Server;
let client: ReturnType<typeof createBoxServerClient>;
let files: Files;
let received: IncomingMessage;
let respond: (response: ServerResponse) => void;
const ref = { tenant: 'tnt-1', box: 'box-1' };
let inUse: string[] = [];
const activity = createActivity(async (boxes) => {
  inUse = boxes;
  return boxes;
}, 1000);
/** A box that is not held is written only by the first flush after its use. */
const heldNow = async (): Promise<string[]> => {
  await activity.flush();
  await activity.flush();
  return inUse;
};
const entry = { name: 'a', path: 'a', type: 'file', sizeBytes: 3, modifiedAt: '2026-01-02T03:04:05.000Z' };

const respondWith = (status: number, headers: Record<string, string>, body?: string) => {
  respond = (response) => response.writeHead(status, headers).end(body);
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-files-'));
  server = createServer(async (request, response) => {
    received = request;
    await request.toArray();
    respond(response);
  });
  const path = join(folder, 'box.sock');
  await new Promise<void>((listening) => server.listen(path, listening));
  client = createBoxServerClient({ instance: 'i-1', address: `unix:${path}`, token: 'token' });
  files = createFiles({ access: { use: async () => ({ server: client }) as unknown as ReachableBox }, activity });
});
afterAll(async () => {
  await client?.close();
  server?.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true });
});

test('a part of a file is returned with its range, size and time as values instead of HTTP headers', async () => {
  const headers = {
    'content-length': '3',
    'content-range': 'bytes 2-4/10',
    'accept-ranges': 'bytes',
    etag: '"x"',
    'last-modified': 'Fri, 02 Jan 2026 03:04:05 GMT',
  };
  respondWith(206, headers, '234');
  const opened = await files.open(ref, 'a b', { range: 'bytes=2-4', conditions: { ifMatch: '"x"' } });
  expect(received.url).toBe('/codebox/files/a%20b');
  expect(received.headers).toMatchObject({ range: 'bytes=2-4', 'if-match': '"x"' });
  const modifiedAt = new Date('2026-01-02T03:04:05Z');
  const range = { first: 2, last: 4, sizeBytes: 10 };
  expect(opened).toMatchObject({ kind: 'file', lengthBytes: 3, etag: '"x"', modifiedAt, range, hasRanges: true });
  expect('body' in opened && (await text(opened.body))).toBe('234');

  respondWith(304, { etag: '"x"' });
  expect(await files.stat(ref, 'a', { conditions: { ifNoneMatch: '"x"' } })).toMatchObject({ isUnchanged: true });
  expect([received.method, received.headers['if-none-match']]).toEqual(['HEAD', '"x"']);

  respondWith(416, { 'content-range': 'bytes */10' }, '{}');
  const refused = await files.open(ref, 'a', { range: 'bytes=50-' }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(NoSuchRange);
  expect(refused).toMatchObject({ code: 'range_not_satisfiable', sizeBytes: 10 });
});

test('a folder is returned as a page of entries, and listing a file is refused', async () => {
  const page = { items: [entry], nextCursor: null };
  respondWith(200, { 'x-codebox-type': 'directory' }, JSON.stringify(page));
  expect(await files.open(ref, '')).toEqual({ kind: 'folder', page });
  expect(await files.list(ref, 'd', { limit: 5, depth: 2 })).toEqual(page);
  expect(received.url).toBe('/codebox/files/d?limit=5&depth=2');
  respondWith(200, { 'x-codebox-type': 'file' }, 'abc');
  await expect(files.list(ref, 'a')).rejects.toMatchObject({ code: 'invalid_request' });
  await expect.poll(heldNow).toEqual([]);
});

test('a write returns whether the file is new', async () => {
  for (const isNew of [true, false]) {
    respondWith(isNew ? 201 : 200, {}, JSON.stringify(entry));
    expect(await files.put(ref, 'a', Readable.from(['abc']), { sizeBytes: 3 })).toEqual({ entry, isNew });
    expect(received.headers['content-length']).toBe('3');
  }
});

test('an invalid response of a box server is a protocol error and leaves nothing open', async () => {
  const nonsense: [number, Record<string, string>][] = [
    [202, {}],
    [206, {}],
    [206, { 'content-range': 'bytes 1-x/3' }],
  ];
  for (const [status, headers] of nonsense) {
    respondWith(status, headers, 'abc');
    await expect(files.open(ref, 'a')).rejects.toMatchObject({ code: 'unavailable', reason: 'protocol' });
  }
  await expect.poll(heldNow).toEqual([]);
});
