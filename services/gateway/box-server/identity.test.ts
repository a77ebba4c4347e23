import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { freePort } from '../../../test/free-port.ts';
import { localEnvironment } from '../drivers/local/environment.ts';
import { type BoxConnections, createBoxConnections } from './connections.ts';
import { connectToBox } from './socket.ts';

const serverFolder = fileURLToPath(new URL('../../../images/box/server', import.meta.url));
/** A box server does not listen on a loopback address, to which callers' tunnels lead. */
const host = Object.values(networkInterfaces())
  .flat()
  .find((found) => found?.family === 'IPv4' && !found.internal)?.address;

describe('box servers on TCP', () => {
  const stack: (() => Promise<unknown>)[] = [];
  let connections: BoxConnections;
  beforeEach(() => {
    connections = createBoxConnections({ secret: 'a secret of this deployment' });
    stack.push(connections.close);
  });
  afterEach(async () => {
    for (const undo of stack.splice(0).reverse()) await undo();
  });

  const folderOf = async (instance: string): Promise<string> => {
    const folder = await mkdtemp(join(tmpdir(), `cbx-${instance}-`));
    stack.push(() => rm(folder, { recursive: true, force: true }));
    return folder;
  };

  /** Serves as an instance at a port, its files in `folder`; returns once it does. */
  const serve = async (instance: string, folder: string, port: number): Promise<ChildProcess> => {
    await mkdir(join(folder, 'run'), { recursive: true });
    const child = spawn(`${localEnvironment.venv}/bin/python`, ['-m', 'codebox_server'], {
      stdio: 'ignore',
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: serverFolder,
        CODEBOX_INSTANCE: instance,
        CODEBOX_TOKEN: connections.tokenOf(instance),
        CODEBOX_LISTEN: `tcp:${host}:${port}`,
        CODEBOX_ROOT: join(folder, 'root'),
        CODEBOX_RUNTIME_DIR: join(folder, 'run'),
      },
    });
    stack.push(() => end(child));
    const isUp = () => connections.to(instance, `tcp:${host}:${port}`).health(AbortSignal.timeout(5000));
    await expect.poll(() => isUp().then(() => true, String), { timeout: 60_000, interval: 100 }).toBe(true);
    return child;
  };

  const end = async (child: ChildProcess): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };

  const at = (instance: string, port: number) => connections.to(instance, `tcp:${host}:${port}`);
  const put = (instance: string, port: number) =>
    at(instance, port).file('PUT', 'secret', {}, Readable.from(['what its owner alone may see']));

  test('an address that was given to another instance leads to nobody', async () => {
    const [one, other] = [await folderOf('i-one'), await folderOf('i-other')];
    const [first, second] = [await freePort(host), await freePort(host)];
    const servers = await Promise.all([serve('i-one', one, first), serve('i-other', other, second)]);
    (await put('i-one', first)).body.resume();
    await Promise.all(servers.map(end));
    // The two come back, each at the other's address; rows and connections still know the old ones.
    const known = [at('i-one', first), at('i-other', second)];
    const swapped = createBoxConnections({ secret: 'a secret of this deployment' });
    stack.push(swapped.close);
    connections = swapped;
    await Promise.all([serve('i-one', one, second), serve('i-other', other, first)]);
    for (const box of known) {
      const calls = [
        box.contexts(),
        box.file('PUT', 'mine', {}, Readable.from(['of another tenant'])),
        box.startTerminal('t', { cols: 80, rows: 24 }),
        box.jupyter.languages(),
        box.attachTerminal('t'),
      ];
      for (const call of await Promise.allSettled(calls))
        expect(call).toMatchObject({ status: 'rejected', reason: { code: 'unavailable' } });
    }
    for (const [instance, port] of [
      ['i-one', second],
      ['i-other', first],
    ] as const) {
      const listing = await at(instance, port).file('GET', '', {});
      expect(await text(listing.body)).not.toContain('mine');
    }
  });

  test('a server that cannot prove who it is hears nothing but the question', async () => {
    for (const answer of [
      '{"instance":"i-one","proof":""}',
      `{"instance":"i-one","proof":"${'0'.repeat(64)}"}`,
      '{"instance":"i-other","proof":"00"}',
      'no JSON',
    ]) {
      let heard = '';
      const server = createServer((socket) => {
        socket.on('error', () => {});
        socket.on('data', (data) => {
          heard += data;
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`);
        });
      });
      const port = await listen(server);
      await expect(put('i-one', port)).rejects.toMatchObject({ code: 'unavailable' });
      expect(heard).toMatch(/^GET \/codebox\/identity\?challenge=[0-9a-f]{32} HTTP\/1.1\r\nHost: localhost\r\n\r\n$/);
      connections.drop('i-one');
    }
  });

  test('a server that says too much, or closes, is no box', async () => {
    for (const answer of ['x'.repeat(10_000), 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{}', '']) {
      const server = createServer((socket) => {
        socket.on('error', () => {});
        socket.on('data', () => (answer === '' ? socket.end() : socket.write(answer)));
      });
      const endpoint = { instance: 'i-one', address: `tcp:${host}:${await listen(server)}`, token: 'token' };
      await expect(connectToBox(endpoint)).rejects.toMatchObject({ code: 'unavailable' });
    }
  });

  const listen = async (server: Server): Promise<number> => {
    server.listen(0, host);
    await once(server, 'listening');
    stack.push(async () => void server.close());
    const address = server.address();
    return typeof address === 'object' && address ? address.port : 0;
  };
});

const text = async (body: Readable): Promise<string> => {
  let all = '';
  for await (const part of body.setEncoding('utf8')) all += part;
  return all;
};
