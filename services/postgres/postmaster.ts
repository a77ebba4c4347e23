import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The server process of a PostgreSQL in a folder. */
export interface Postmaster {
  pid: number;
  port: number;
}

const stopDeadlineMs = 10_000;

/** PostgreSQL refuses to run as root. In a user namespace root is an ordinary user to it, and still owns the folder. */
export const asOrdinaryUser = (command: string, args: string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? ['unshare', ['--user', '--map-user=1000', '--map-group=1000', '--', command, ...args]]
    : [command, args];

/** Starts the server, detached, so that neither Ctrl-C nor the death of the gateway takes the database with it. */
export const launchPostmaster = async (
  binary: string,
  { folder, data, port, socketFolder }: { folder: string; data: string; port: number; socketFolder: string },
): Promise<Postmaster> => {
  const settings = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${socketFolder}`,
    'max_connections=60',
    'log_min_messages=warning',
  ];
  const flags = settings.flatMap((setting) => ['-c', setting]);
  const [command, args] = asOrdinaryUser(binary, ['-D', data, '-p', String(port), ...flags]);
  const log = await open(join(folder, 'log'), 'w', 0o600);
  const child = spawn(command, args, { detached: true, stdio: ['ignore', log.fd, log.fd] });
  await new Promise((started, failed) => child.once('spawn', started).once('error', failed));
  child.unref();
  await log.close();
  if (child.pid === undefined) throw new Error('The embedded PostgreSQL has no process id.');
  return { pid: child.pid, port };
};

/**
 * The server that runs on a data folder, started by whomever. The note of one that has ended, and whose exit status nobody
 * has taken, is removed: PostgreSQL takes it for a living one and would not start beside it.
 */
export const findPostmaster = async (data: string): Promise<Postmaster | undefined> => {
  const note = join(data, 'postmaster.pid');
  const lines = await readFile(note, 'utf8').then(
    (text) => text.split('\n'),
    () => [],
  );
  const [pid, port] = [Number(lines[0]), Number(lines[3])];
  if (!(pid > 0 && port > 0) || !isAlive(pid)) return undefined;
  if (await isPostmaster(pid, data)) return { pid, port };
  if ((await commandLine(pid)) === '') await rm(note, { force: true });
  return undefined;
};

/** Whether this process is the server of that folder. */
export const isPostmaster = async (pid: number, data: string): Promise<boolean> => {
  if (!isAlive(pid)) return false;
  const line = await commandLine(pid);
  return line === undefined || line.split('\0').includes(data);
};

/** Empty for a process that has ended and was not waited for; undefined where the system does not tell. */
const commandLine = async (pid: number): Promise<string | undefined> =>
  existsSync('/proc/self/cmdline') ? await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') : undefined;

/** Ends it and waits until it has written everything. */
export const stopPostmaster = async (pid: number, data: string): Promise<void> => {
  if (!(await isPostmaster(pid, data))) return;
  process.kill(pid, 'SIGINT');
  const deadline = performance.now() + stopDeadlineMs;
  while (await isPostmaster(pid, data)) {
    if (performance.now() > deadline) {
      process.kill(pid, 'SIGQUIT');
      return;
    }
    await sleep(20);
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
