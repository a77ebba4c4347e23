import { readFile } from 'node:fs/promises';
import { cgroupOf, readCgroupUsage } from '../../services/gateway/drivers/host/cgroup.ts';
import { proportionalMiB } from './process-memory.ts';

/** Memory in MiB: the charge of a control group less its inactive file pages, and the PSS of its processes. */
export interface Footprint {
  group: number;
  share: number;
}

/** Measures the whole container to which the process belongs. */
export const footprint = async (pid: number): Promise<Footprint> => {
  const folders = await cgroupOf(pid);
  const stats = folders && (await readCgroupUsage(folders));
  if (!folders || !stats) throw new Error('the control group of the container cannot be read');
  const list = await readFile(`${folders.memory ?? folders.unified}/cgroup.procs`, 'utf8');
  const shares = await Promise.all(
    list
      .trim()
      .split('\n')
      .map((member) => proportionalMiB(Number(member))),
  );
  return { group: stats.memoryBytes / 1024 ** 2, share: shares.reduce((sum, one) => sum + one, 0) };
};
