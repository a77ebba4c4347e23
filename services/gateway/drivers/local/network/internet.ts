import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CodeBoxError } from '#contract';
import type { Endpoint } from '../../package-sources.ts';
import { isAlive, parseStat } from '../instances/processes.ts';
import { applyRules, currentRules } from './packet-filter.ts';

const script = fileURLToPath(new URL('keep-connected.sh', import.meta.url));

/** The user of all pasta processes, which is none of a box ({@link boxUser}). */
const pastaUser = 199_999;
const device = 'internet0';
const unshare = 'unshare';
/** The address and the router that a box sees. No other box can reach them, so all boxes have the same. */
const [address, prefix, router] = ['10.0.2.15', 24, '10.0.2.2'];
const programs = { pasta: 'passt', nft: 'nftables', ip: 'iproute2', nsenter: 'util-linux' };
const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const settleMs = 5000;
const pollMs = 5;

/** A box to be connected. */
export interface ConnectedBox {
  /** A process of the host in the network namespace of the box. */
  pid: number;
  /** The folder for the state of its network, which the box cannot see. */
  folder: string;
  /** The files to write 0 to in order to join the control groups of the box. */
  joinFiles: readonly string[];
  /** What it may reach although it is not public. */
  endpoints: readonly Endpoint[];
}

/** Returns why boxes cannot be connected on this host, as a clause; undefined when they can. Tries it on a namespace without a box. */
export const internetObstacle = async (): Promise<string | undefined> => {
  if (process.getuid?.() !== 0) return 'the gateway does not run as root, which its packet filter rules need';
  const folders = path.split(':');
  const missing = Object.entries(programs).filter(
    ([name]) => !folders.some((folder) => existsSync(`${folder}/${name}`)),
  );
  if (missing.length > 0) {
    const packages = missing.map(([, name]) => name).join(' ');
    return `this host lacks ${missing.map(([name]) => name).join(' and ')}: install them with apt-get install ${packages}`;
  }
  const folder = await mkdtemp(join(tmpdir(), 'codebox-network-'));
  const holder = spawn(unshare, ['--net', 'sleep', '60'], { stdio: 'ignore', env: { PATH: path } });
  try {
    if (holder.pid === undefined) return 'this host cannot create network namespaces';
    const box = { pid: holder.pid, folder, joinFiles: [], endpoints: [] };
    await waitUntil(async () => (await readFile(`/proc/${box.pid}/comm`, 'utf8')) === 'sleep\n');
    await connect(box, AbortSignal.timeout(settleMs));
    await disconnect(box);
    return undefined;
  } catch {
    return 'user-mode networking with pasta does not work on this host';
  } finally {
    holder.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }
};

/**
 * Connects a box to public addresses, unless it is connected. Its rules are in force before it has a device. Throws `unavailable` when it is
 * not connected in time.
 */
export const connect = async (box: ConnectedBox, signal: AbortSignal): Promise<void> => {
  await applyRules(box.pid, await currentRules(box.endpoints), signal);
  if (!(await keeperOf(box.folder))) startKeeper(box);
  try {
    await waitUntil(() => hasRoute(box.pid), signal);
  } catch (cause) {
    const output = await readFile(logOf(box.folder), 'utf8').catch(() => '');
    await disconnect(box);
    throw new CodeBoxError('unavailable', 'The box could not be connected to the internet.', {
      cause: new Error(`${cause}: ${output.slice(0, 1000)}`),
      retryAfterSeconds: 5,
    });
  }
};

/**
 * Disconnects a box, which ends its connections at their other ends; without an effect on one that is not connected. Throws `unavailable`
 * when it stays connected.
 */
export const disconnect = async (box: ConnectedBox): Promise<void> => {
  await endKeeper(box.folder);
  await waitUntil(async () => !(await hasDevice(box.pid))).catch((cause: unknown) => {
    throw new CodeBoxError('unavailable', 'The box could not be disconnected from the internet.', { cause });
  });
};

/** Ends everything that runs for the network of a box, whether or not the box still lives. */
export const endKeeper = async (folder: string): Promise<void> => {
  const found = await keeperOf(folder);
  // It leads a process group, with pasta in it.
  if (found) process.kill(-found.pid, 'SIGKILL');
};

const recordOf = (folder: string): string => `${folder}/network`;
const logOf = (folder: string): string => `${folder}/network.log`;

/** Returns the living process that keeps a box connected. */
const keeperOf = async (folder: string) => {
  const found = parseStat(await readFile(recordOf(folder), 'utf8').catch(() => ''));
  return found && (await isAlive(found)) ? found : undefined;
};

/** Starts it in a session of its own, so that it outlives this process. */
const startKeeper = (box: ConnectedBox): void => {
  const log = openSync(logOf(box.folder), 'w', 0o600);
  const settings = [pastaUser, device, address, prefix, router].map(String);
  const own = ['--mount', '--propagation', 'private', '/bin/sh', script];
  const child = spawn(unshare, [...own, recordOf(box.folder), String(box.pid), ...settings, ...box.joinFiles], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env: { PATH: path, LC_ALL: 'C' },
  });
  child.on('error', () => {});
  child.unref();
  closeSync(log);
};

const hasDevice = async (pid: number): Promise<boolean> =>
  (await readFile(`/proc/${pid}/net/dev`, 'utf8').catch(() => '')).includes(`${device}:`);

/** Whether the first route of a namespace is the default route through the device. */
const hasRoute = async (pid: number): Promise<boolean> =>
  (await readFile(`/proc/${pid}/net/route`, 'utf8')).includes(`${device}\t00000000`);

const waitUntil = async (done: () => Promise<boolean>, signal?: AbortSignal): Promise<void> => {
  const deadline = performance.now() + settleMs;
  while (!(await done())) {
    signal?.throwIfAborted();
    if (performance.now() > deadline) throw new Error('not in time');
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
};
