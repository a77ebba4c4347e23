import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { link, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { port, socketName } from './address.ts';

const stopDeadlineMs = 10_000;

/**
 * PostgreSQL refuses to run as root. In a user namespace root looks like an ordinary user, and still owns the folder.
 */
export const asOrdinaryUser = (command: string, args: string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? ['unshare', ['--user', '--map-user=1000', '--map-group=1000', '--', command, ...args]]
    : [command, args];

/** The paths of a server: its folder with log and notes, its data, and the path of its socket. */
export interface Place {
  folder: string;
  data: string;
  socketFolder: string;
}

/**
 * Starts the server, detached, so that neither Ctrl-C nor the death of the gateway ends the database. Resolves with its
 * process id.
 */
export const launchPostmaster = async ({
  postgres,
  folder,
  data,
  socketFolder,
}: Place & { postgres: string }): Promise<number> => {
  const settings = [
    'listen_addresses=',
    `unix_socket_directories=${quoted(socketFolder)}`,
    // A dozen gateways and agents, see `pool.ts`.
    'max_connections=200',
    'log_min_messages=warning',
  ];
  const flags = settings.flatMap((setting) => ['-c', setting]);
  const [command, args] = asOrdinaryUser(postgres, ['-D', data, '-p', String(port), ...flags]);
  const log = await open(join(folder, 'log'), 'w', 0o600);
  const child = spawn(command, args, { detached: true, stdio: ['ignore', log.fd, log.fd] });
  await new Promise((started, failed) => child.once('spawn', started).once('error', failed));
  child.unref();
  await log.close();
  if (child.pid === undefined) throw new Error('The embedded PostgreSQL has no process id.');
  return child.pid;
};

/** One item of a list in a setting. */
const quoted = (path: string): string => `"${path.replaceAll('"', '""')}"`;

/**
 * Returns the process id of the server that runs on a data folder, whichever process started it. The pid file of a server that
 * has ended is removed when its process id was reused, or the process is a zombie: PostgreSQL would take it for a
 * living server and not start.
 */
export const findPostmaster = async ({ folder, data }: Pick<Place, 'folder' | 'data'>): Promise<number | undefined> => {
  const note = join(data, 'postmaster.pid');
  const pid = Number((await textOf(note)).split('\n')[0]);
  if (pid > 0 && (await isPostmaster(pid, data))) return pid;
  for (const stale of [note, join(folder, `${socketName}.lock`)]) await removeStale(stale, data);
  return undefined;
};

const textOf = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

/** Removes a pid file that names a living process which is not the server of that folder. */
const removeStale = async (note: string, data: string): Promise<void> => {
  const text = await textOf(note);
  const pid = Number(text.split('\n')[0]);
  if (!(pid > 0 && isAlive(pid)) || (await isPostmaster(pid, data))) return;
  // Another server may have started meanwhile: then its pid file is restored.
  const aside = `${note}.${process.pid}`;
  await rename(note, aside).catch(() => {});
  if (![text, ''].includes(await textOf(aside))) await link(aside, note).catch(() => {});
  await rm(aside, { force: true });
};

/** Whether this process is the server of that folder. */
export const isPostmaster = async (pid: number, data: string): Promise<boolean> => {
  if (!isAlive(pid)) return false;
  const line = await commandLine(pid);
  return line === undefined || line.split('\0').includes(data);
};

/** Empty for a zombie; undefined where the system does not provide it. */
const commandLine = async (pid: number): Promise<string | undefined> =>
  existsSync('/proc/self/cmdline') ? await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') : undefined;

/** Stops it and waits until it has written everything. */
export const stopPostmaster = async (pid: number, data: string): Promise<void> => {
  if (!(await isPostmaster(pid, data))) return;
  // All its users may stop it at the same moment.
  signalTo(pid, 'SIGINT');
  const deadline = performance.now() + stopDeadlineMs;
  while (await isPostmaster(pid, data)) {
    if (performance.now() > deadline) {
      signalTo(pid, 'SIGQUIT');
      return;
    }
    await sleep(20);
  }
};

const isAlive = (pid: number): boolean => signalTo(pid, 0);

/** Returns false if there is no such process any more. */
const signalTo = (pid: number, signal: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
};
