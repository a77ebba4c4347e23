import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { createSocketFolders } from './socket-folder.ts';

const execute = promisify(execFile);
const deadline = () => AbortSignal.timeout(10_000);
const isRoot = process.getuid?.() === 0;

test('a folder in which the box has put something that cannot be removed is gone nevertheless', async () => {
  if (!isRoot) return;
  const parent = await mkdtemp('/var/tmp/codebox-sockets-');
  const folders = await createSocketFolders(parent, 'plain');
  const { run } = await folders.make('stubborn', 1000, deadline());
  await mkdir(join(run, 'held'));
  // As the folder of another user is for a gateway without root.
  await execute('chattr', ['+i', join(run, 'held')]);
  await folders.remove('stubborn', deadline());
  expect(await folders.list()).toEqual([]);
  await execute('chattr', ['-R', '-i', parent]);
  await rm(parent, { recursive: true });
});

test('a mounted folder below one with a space in its name is removed', async () => {
  if (!isRoot) return;
  const parent = await mkdtemp('/var/tmp/codebox sockets-');
  const folders = await createSocketFolders(parent, 'tmpfs');
  await folders.make('one', 1000, deadline());
  await folders.remove('one', deadline());
  expect(await folders.list()).toEqual([]);
  await rm(parent, { recursive: true });
});
