import { readFile } from 'node:fs/promises';
import { cgroupOf, readCgroupUsage } from '../../services/gateway/drivers/host/cgroup.ts';
import { proportionalMiB } from './process-memory.ts';

/** MiB of memory: what a control group is charged for, less file pages that are not in use, and the PSS of its processes. */
export interface Footprint {
  group: number;
  share: number;
}

/** Of the whole container to which the process belongs. */
export const footprint = async (pid: number): Promise<Footprint> => {
  const folders = await cgroupOf(pid);
  const stats = folders && (await readCgroupUsage(folders));
  if (!folders || !stats) throw new Error('the container has no control group to read');
  const list = await readFile(`${folders.memory ?? folders.unified}/cgroup.procs`, 'utf8');
  const shares = await Promise.all(
    list
      .trim()
      .split('\n')
      .map((member) => proportionalMiB(Number(member))),
  );
  return { group: stats.memoryBytes / 1024 ** 2, share: shares.reduce((sum, one) => sum + one, 0) };
};
