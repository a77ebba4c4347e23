import { readFile } from 'node:fs/promises';

/** Returns the CPU quota of the control group of a process, in CPUs, from the host's cgroup files. */
export const cpuQuota = async (pid: number): Promise<number> => {
  const text = await readFile(`/proc/${pid}/cgroup`, 'utf8');
  const path = (pattern: RegExp) => pattern.exec(text)?.[1];
  const legacy = path(/^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(.*)$/m);
  if (legacy !== undefined && legacy !== '/') {
    const read = async (name: string) => Number(await readFile(`/sys/fs/cgroup/cpu${legacy}/${name}`, 'utf8'));
    return (await read('cpu.cfs_quota_us')) / (await read('cpu.cfs_period_us'));
  }
  const [quota, period] = (await readFile(`/sys/fs/cgroup${path(/^0::(.*)$/m)}/cpu.max`, 'utf8')).split(' ');
  return Number(quota) / Number(period);
};
