import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Agent } from 'undici';
import { freePort } from '../free-port.ts';
import { until } from './deadline.ts';
import { owned } from './owned.ts';
import { endChild } from './program.ts';
import type { FileAddress } from './transfer.ts';

/** Starts the trivial file server in a process and a folder of its own. */
export const startFileFloor = async (): Promise<FileAddress & AsyncDisposable> => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp('/tmp/codebox-bench-floor-');
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const port = await freePort();
  const child = spawn(process.execPath, [join(import.meta.dirname, 'floor-server.ts'), folder, String(port)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  stack.defer(() => endChild(child, 5000));
  await until('the file server', () => listens(port), { withinMs: 10_000 });
  const dispatcher = new Agent({ connections: 1 });
  stack.defer(() => dispatcher.close());
  return { url: `http://127.0.0.1:${port}/file`, dispatcher, headers: {}, ...owned(stack) };
};

const listens = async (port: number): Promise<true | undefined> => {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    // It does not listen yet.
    return undefined;
  } finally {
    socket.destroy();
  }
};
