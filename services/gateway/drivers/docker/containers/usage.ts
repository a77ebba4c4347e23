import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceUsage } from '../../driver.ts';
import { readCgroupUsage } from '../../host/cgroup.ts';
import type { Daemon } from '../daemon/daemon.ts';
import { containerCgroup } from './cgroup.ts';

/**
 * Reads the usage of a running container from its control group, or otherwise from the daemon, which reports neither kills at the memory
 * limit nor, with v2 control groups, the peak.
 */
export const containerUsage = async (
  daemon: Daemon,
  found: ContainerInspectInfo,
  signal: AbortSignal,
): Promise<InstanceUsage> => {
  const folders = await containerCgroup(found);
  const read = folders !== undefined ? await readCgroupUsage(folders) : undefined;
  if (read !== undefined) return read;
  const stats = await daemon.call(signal, (docker, abortSignal) => {
    // `one-shot`: otherwise the daemon waits a second to measure a rate.
    const options = { stream: false, 'one-shot': true, abortSignal } as const;
    return docker.getContainer(found.Id).stats(options);
  });
  const peak = stats.memory_stats.max_usage;
  return {
    at: new Date(),
    cpuMs: Math.round((stats.cpu_stats.cpu_usage.total_usage ?? 0) / 1e6),
    memoryBytes: stats.memory_stats.usage ?? 0,
    pids: stats.pids_stats?.current ?? 0,
    ...(peak !== undefined && { peakMemoryBytes: peak }),
  };
};
