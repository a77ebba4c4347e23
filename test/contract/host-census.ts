import { readdir, readFile, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { runHostCommand } from '../../services/gateway/drivers/host/host-command.ts';

/**
 * What there is on this host of the boxes of one data folder and deployment, as `kind name`: control groups, mounts, loop
 * devices, files, and processes of the users that boxes have. `containers` adds what a daemon knows.
 */
export const takeHostCensus = async (
  dataDir: string,
  deployment: string,
  containers: () => Promise<string[]> = async () => [],
): Promise<string[]> => [
  ...(await containers()),
  ...(await groups(deployment)),
  ...(await mounts(dataDir)),
  ...(await loops(dataDir)),
  ...(await files(dataDir)),
];

/** Below each mount of a hierarchy; not searched for, because others come and go meanwhile. */
const groups = async (deployment: string): Promise<string[]> => {
  const root = '/sys/fs/cgroup';
  const entries = await readdir(root, { withFileTypes: true });
  const mounts = [root, ...entries.filter((entry) => entry.isDirectory()).map(({ name }) => `${root}/${name}`)];
  const found: string[] = [];
  for (const parent of mounts.map((mount) => `${mount}/codebox-${deployment}`)) {
    const below = await readdir(parent, { withFileTypes: true }).catch(() => undefined);
    if (below === undefined) continue;
    const names = below.filter((entry) => entry.isDirectory()).map(({ name }) => `/${name}`);
    found.push(...['', ...names].map((name) => `group ${parent}${name}`));
  }
  return found;
};

const mounts = async (dataDir: string): Promise<string[]> => {
  const text = await readFile('/proc/self/mountinfo', 'utf8');
  return lines(text)
    .map((line) => line.split(' ')[4] ?? '')
    .filter((point) => point.startsWith(`${dataDir}/`))
    .map((point) => `mount ${point}`);
};

/** A device that is detached goes when the last who looks at it closes it, as udev does with each: that is waited for. */
const loops = async (dataDir: string): Promise<string[]> => {
  const until = performance.now() + 10_000;
  for (;;) {
    const text = await runHostCommand(['losetup', '--list', '--noheadings', '--output', 'BACK-FILE']);
    const found = lines(text).filter((line) => line.startsWith(dataDir));
    const isGoing = found.some((line) => line.endsWith('(deleted)'));
    if (!isGoing || performance.now() > until) return found.map((line) => `loop ${line}`);
    await sleep(50);
  }
};

/** The folders that grow with boxes; the rest belongs to the driver. */
const files = async (dataDir: string): Promise<string[]> => {
  const found: string[] = [];
  for (const folder of ['run', 'disks', 'local/instances']) {
    const names = await readdir(`${dataDir}/${folder}`).catch(() => []);
    found.push(...names.map((name) => `file ${folder}/${name}`));
  }
  return found;
};

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');

/** Processes of the host that run as `uid`. */
export const processesOf = async (uid: number): Promise<string[]> => {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    // It may end while we look.
    const owner = await stat(`/proc/${pid}`).catch(() => undefined);
    if (owner?.uid === uid) found.push(pid);
  }
  return found;
};
