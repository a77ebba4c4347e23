import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectToBox } from './socket.ts';

let folder: string;
let server: Server;
let accepted = 0;

const at = (name: string) => ({ instance: 'i-1', address: `unix:${join(folder, name)}`, token: 'token' });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-socket-'));
  server = createServer((socket) => {
    accepted += 1;
    socket.end('hello');
  });
  await new Promise<void>((listening) => server.listen(join(folder, 'real.sock'), listening));
});
afterAll(async () => {
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true });
});

test('a real socket is connected', async () => {
  const socket = await connectToBox(at('real.sock'));
  const [greeting] = await new Promise<Buffer[]>((got) => socket.once('data', (data) => got([data])));
  expect(greeting?.toString()).toBe('hello');
});

test('a symbolic link to a socket is not followed', async () => {
  await symlink(join(folder, 'real.sock'), join(folder, 'box.sock'));
  const before = accepted;
  await expect(connectToBox(at('box.sock'))).rejects.toMatchObject({ code: 'unavailable' });
  expect(accepted).toBe(before);
});

test('a file, a folder and a missing path are unavailable', async () => {
  await writeFile(join(folder, 'file'), '');
  for (const name of ['file', '.', 'missing']) {
    await expect(connectToBox(at(name))).rejects.toMatchObject({ code: 'unavailable' });
  }
});
