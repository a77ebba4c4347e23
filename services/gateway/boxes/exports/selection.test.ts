import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBoxServerClient } from '../../box-server/client.ts';
import { createActivity } from '../life/activity.ts';
import type { ReachableBox } from '../life/directory.ts';
import { createFiles, type Files } from '../reach/files.ts';
import { select } from './selection.ts';

let folder: string;
let server: Server;
let client: ReturnType<typeof createBoxServerClient>;
let files: Files;
let requests = 0;
/** The page that the box lists of a folder. */
let list: (folder: string) => { items: object[]; nextCursor: string | null };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-selection-'));
  server = createServer((request, response) => {
    requests += 1;
    const [, path = ''] = /files\/([^?]*)/.exec(request.url ?? '') ?? [];
    response.writeHead(200, { 'x-codebox-type': 'directory', 'content-type': 'application/json' });
    response.end(request.method === 'HEAD' ? undefined : JSON.stringify(list(path)));
  });
  const path = join(folder, 'box.sock');
  await new Promise<void>((listening) => server.listen(path, listening));
  client = createBoxServerClient({ instance: 'i-1', address: `unix:${path}`, token: 'token' });
  const access = { use: async () => ({ server: client }) as unknown as ReachableBox };
  files = createFiles({ access, activity: createActivity(async (boxes) => boxes, 1000) });
});
afterAll(async () => {
  await client?.close();
  server?.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true });
});

const entry = (path: string, more: object = {}) => ({
  name: 'a',
  path,
  type: 'file',
  sizeBytes: 3,
  modifiedAt: '2026-01-02T03:04:05.000Z',
  ...more,
});
const selectAll = () =>
  select(files, { tenant: 'tnt-1', box: 'box-1' }, ['out'], new AbortController().signal).catch(({ code }) => code);

test('a folder is listed with names that are not UTF-8, and without what is no file', async () => {
  list = () => ({
    items: [
      entry('out/ä b'),
      entry('out/ä b'),
      entry('out/\ufffd', { encodedPath: 'out/%FF' }),
      entry('out/link', { type: 'symlink' }),
      entry('out/deep', { type: 'directory' }),
    ],
    nextCursor: null,
  });
  const raw = { path: 'out/\udcff', shown: 'out/%FF' };
  expect(await selectAll()).toEqual({ selected: [{ path: 'out/ä b', shown: 'out/ä b' }, raw], skipped: 1 });
});

test.each([
  ['too long', entry(`out/${'a'.repeat(5000)}`)],
  ['of many megabytes', entry(`out/${'a'.repeat(7_000_000)}`)],
  ['of a parent', entry('out/../x')],
  ['absolute', entry('/etc/passwd')],
  ['of another folder', entry('other/x')],
  ['of the folder', entry('out', { type: 'directory' })],
  ['with NUL', entry('out/a\0')],
  ['with a lone surrogate', entry('out/a\ud800')],
  ['empty', entry('')],
  ['of a parent, encoded', entry('out/x', { encodedPath: 'out/%2E%2E/x' })],
  ['with NUL, encoded', entry('out/x', { encodedPath: 'out/%00' })],
  ['with text that is no escape', entry('out/x', { encodedPath: 'out/%FF%zz' })],
  ['encoded, with a control character', entry('out/x', { encodedPath: 'out/%FF\n' })],
])('a path %s is not believed', async (_, item) => {
  list = () => ({ items: [entry('out/good'), item], nextCursor: null });
  expect(await selectAll()).toBe('box_unavailable');
});

test('a listing that never ends is ended', async () => {
  list = () => ({ items: [], nextCursor: 'more' });
  requests = 0;
  expect(await selectAll()).toBe('too_many_files');
  expect(requests).toBeLessThan(1100);
  list = () => ({ items: [], nextCursor: 'x'.repeat(10_000) });
  expect(await selectAll()).toBe('box_unavailable');
  list = () => ({ items: Array.from({ length: 501 }, (_, n) => entry(`out/${n}`)), nextCursor: null });
  expect(await selectAll()).toBe('box_unavailable');
  // Folders in folders, as deep as one listing goes, again and again.
  list = (path) => ({ items: [entry(path + '/a'.repeat(64), { type: 'directory' })], nextCursor: null });
  expect(await selectAll()).toBe('box_unavailable');
  const longNames = Array.from({ length: 500 }, (_, n) => entry(`out/${n}/${'a'.repeat(3000)}`));
  list = () => ({ items: longNames, nextCursor: 'more' });
  expect(await selectAll()).toBe('too_many_files');
});
