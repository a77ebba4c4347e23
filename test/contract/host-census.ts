import { readdir, readFile, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { runHostCommand } from '../../services/gateway/drivers/host/host-command.ts';

/**
 * Lists the resources of the boxes of one data folder and deployment on this host, as `kind name`: control groups, mounts, loop
 * devices and files. `containers` adds what a daemon lists.
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

/** Looks only directly below each mount of a hierarchy: a recursive search would fail on groups that disappear meanwhile. */
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

/** A detached loop device remains until its last reader, such as udev, closes it: waits up to 10 s for that. */
const loops = async (dataDir: string): Promise<string[]> => {
  const until = performance.now() + 10_000;
  for (;;) {
    const text = await runHostCommand(['losetup', '--list', '--noheadings', '--output', 'BACK-FILE']);
    const found = lines(text).filter((line) => line.startsWith(dataDir));
    const isDetaching = found.some((line) => line.endsWith('(deleted)'));
    if (!isDetaching || performance.now() > until) return found.map((line) => `loop ${line}`);
    await sleep(50);
  }
};

/** Looks at the folders that grow with boxes; the others belong to the driver. */
const files = async (dataDir: string): Promise<string[]> => {
  const found: string[] = [];
  for (const folder of ['run', 'disks', 'volumes', 'local/instances', 'local/volumes']) {
    const names = await readdir(`${dataDir}/${folder}`).catch(() => []);
    found.push(...names.map((name) => `file ${folder}/${name}`));
  }
  return found;
};

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');

/** Lists the ids of processes on this host that run as `uid`. */
export const processesOf = async (uid: number): Promise<string[]> => {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    // The process may have ended since.
    const owner = await stat(`/proc/${pid}`).catch(() => undefined);
    if (owner?.uid === uid) found.push(pid);
  }
  return found;
};
