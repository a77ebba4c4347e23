import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { freePort } from '../../../../test/free-port.ts';
import { runHostCommand } from '../../drivers/host/host-command.ts';
import { localEnvironment } from '../../drivers/local/environment/environment.ts';
import { type BoxConnections, createBoxConnections } from '../connections.ts';

const serverFolder = fileURLToPath(new URL('../../../../images/box/server', import.meta.url));
/** A box server does not listen on a loopback address, because the tunnels of callers lead there. */
const host = Object.values(networkInterfaces())
  .flat()
  .find((found) => found?.family === 'IPv4' && !found.internal)?.address;

describe('box servers that are reached by TLS', () => {
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

  /** Starts the server of an instance at a port, with its files in `folder`; resolves once it is up. */
  const serve = async (instance: string, folder: string, port: number): Promise<ChildProcess> => {
    await mkdir(join(folder, 'run'), { recursive: true });
    const child = spawn(`${localEnvironment.venv}/bin/python`, ['-m', 'codebox_server'], {
      stdio: 'ignore',
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: serverFolder,
        CODEBOX_INSTANCE: instance,
        CODEBOX_TOKEN: connections.tokenOf(instance),
        CODEBOX_LISTEN: `tls:${host}:${port}`,
        CODEBOX_ROOT: join(folder, 'root'),
        CODEBOX_RUNTIME_DIR: join(folder, 'run'),
      },
    });
    stack.push(() => end(child));
    const isUp = () => connections.to(instance, `tls:${host}:${port}`).health(AbortSignal.timeout(5000));
    await expect.poll(() => isUp().then(() => true, String), { timeout: 60_000, interval: 100 }).toBe(true);
    return child;
  };

  const end = async (child: ChildProcess): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };

  const at = (instance: string, port: number) => connections.to(instance, `tls:${host}:${port}`);
  const put = (instance: string, port: number) =>
    at(instance, port).file('PUT', 'secret', {}, Readable.from(['what its owner alone may see']));

  test('requests to an address that another instance now has are refused', async () => {
    const [one, other] = [await folderOf('i-one'), await folderOf('i-other')];
    const [first, second] = [await freePort(host), await freePort(host)];
    const servers = await Promise.all([serve('i-one', one, first), serve('i-other', other, second)]);
    (await put('i-one', first)).body.resume();
    await Promise.all(servers.map(end));
    // Both servers restart at each other's address, while rows and connections still have the old ones.
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
        box.jupyter.shutdown('00000000-0000-4000-8000-000000000000'),
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

  test('a server with another key receives nothing but a handshake, nor does one without TLS', async () => {
    const received: Buffer[] = [];
    const take = (socket: Socket) => socket.on('error', () => {}).on('data', (data) => received.push(data));
    const folder = await folderOf('other');
    const [key, cert] = [join(folder, 'key'), join(folder, 'cert')];
    const make = ['-x509', '-newkey', 'ed25519', '-nodes', '-subj', '/CN=box', '-keyout', key, '-out', cert];
    await runHostCommand(['openssl', 'req', ...make], { env: { PATH: process.env.PATH ?? '' } });
    const other = createTlsServer({ key: await readFile(key), cert: await readFile(cert) }, take);
    await expect(put('i-one', await listen(other))).rejects.toMatchObject({ code: 'unavailable' });
    expect(Buffer.concat(received).toString()).toBe('');
    connections.drop('i-one');
    const plain = createServer((socket) => take(socket).write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'));
    await expect(put('i-one', await listen(plain))).rejects.toMatchObject({ code: 'unavailable' });
    expect(Buffer.concat(received).toString('latin1')).not.toContain('codebox');
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
