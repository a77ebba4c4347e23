import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceUsage } from '../driver.ts';
import { readCgroupUsage } from '../host/cgroup.ts';
import { containerCgroup } from './container-cgroup.ts';
import type { Daemon } from './daemon.ts';

/**
 * Use of a running container, from its control group, or else from what the daemon tells, which knows neither kills by the
 * memory limit nor, with v2 control groups, the peak.
 */
export const containerUsage = async (
  daemon: Daemon,
  found: ContainerInspectInfo,
  signal: AbortSignal,
): Promise<InstanceUsage> => {
  const folders = await containerCgroup(found);
  const read = folders !== undefined ? await readCgroupUsage(folders) : undefined;
  if (read !== undefined) return read;
  const told = await daemon.call(signal, (docker) =>
    // At once: without this the daemon waits a second to measure a rate.
    docker.getContainer(found.Id).stats({ stream: false, 'one-shot': true }),
  );
  const peak = told.memory_stats.max_usage;
  return {
    at: new Date(),
    cpuMs: Math.round((told.cpu_stats.cpu_usage.total_usage ?? 0) / 1e6),
    memoryBytes: told.memory_stats.usage ?? 0,
    pids: told.pids_stats?.current ?? 0,
    ...(peak !== undefined && { peakMemoryBytes: peak }),
  };
};
