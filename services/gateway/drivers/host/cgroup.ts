import { readFile } from 'node:fs/promises';
import type { InstanceUsage } from '../driver.ts';

/** The folders of a control group, one for each controller (v1) or a single one (v2). */
export interface CgroupFolders {
  memory: string | undefined;
  cpu: string | undefined;
  cpuacct: string | undefined;
  pids: string | undefined;
  unified: string | undefined;
}

/** Returns the control group of a host process, or undefined when the process or the hierarchy does not exist. */
export const cgroupOf = async (pid: number): Promise<CgroupFolders | undefined> => {
  const text = await read(`/proc/${pid}/cgroup`);
  if (text === undefined) return undefined;
  const folders: CgroupFolders = {
    memory: undefined,
    cpu: undefined,
    cpuacct: undefined,
    pids: undefined,
    unified: undefined,
  };
  for (const line of text.split('\n')) {
    const [, controllers = '', path = ''] = line.split(':');
    for (const controller of controllers.split(',')) {
      if (controller === 'memory') folders.memory = `/sys/fs/cgroup/memory${path}`;
      if (controller === 'cpu') folders.cpu = `/sys/fs/cgroup/cpu${path}`;
      if (controller === 'cpuacct') folders.cpuacct = `/sys/fs/cgroup/cpuacct${path}`;
      if (controller === 'pids') folders.pids = `/sys/fs/cgroup/pids${path}`;
    }
    if (line.startsWith('0::')) folders.unified = `/sys/fs/cgroup${path}`;
  }
  return folders;
};

/** Reads the current and peak usage from the files of a control group; returns undefined when they do not exist. */
export const readCgroupUsage = async (folders: CgroupFolders): Promise<InstanceUsage | undefined> =>
  folders.memory === undefined ? readUnified(folders.unified) : readLegacy(folders);

const readLegacy = async ({ memory, cpuacct, pids }: CgroupFolders): Promise<InstanceUsage | undefined> => {
  const [usage, peak, oom, nanoseconds, tasks, detail] = await Promise.all([
    read(`${memory}/memory.usage_in_bytes`),
    read(`${memory}/memory.max_usage_in_bytes`),
    read(`${memory}/memory.oom_control`),
    read(`${cpuacct}/cpuacct.usage`),
    read(`${pids}/pids.current`),
    read(`${memory}/memory.stat`),
  ]);
  if (usage === undefined) return undefined;
  return {
    at: new Date(),
    cpuMs: Math.round(Number(nanoseconds ?? 0) / 1e6),
    memoryBytes: Math.max(0, Number(usage) - field(detail, 'total_inactive_file')),
    ...(peak !== undefined && { peakMemoryBytes: Number(peak) }),
    pids: Number(tasks ?? 0),
    oomKills: field(oom, 'oom_kill'),
  };
};

const readUnified = async (folder: string | undefined): Promise<InstanceUsage | undefined> => {
  const [usage, peak, events, cpu, tasks, detail] = await Promise.all(
    ['memory.current', 'memory.peak', 'memory.events', 'cpu.stat', 'pids.current', 'memory.stat'].map((name) =>
      read(`${folder}/${name}`),
    ),
  );
  if (usage === undefined) return undefined;
  return {
    at: new Date(),
    cpuMs: Math.round(field(cpu, 'usage_usec') / 1000),
    memoryBytes: Math.max(0, Number(usage) - field(detail, 'inactive_file')),
    // Kernels report the peak since 5.19.
    ...(peak !== undefined && { peakMemoryBytes: Number(peak) }),
    pids: Number(tasks ?? 0),
    oomKills: field(events, 'oom_kill'),
  };
};

const field = (text: string | undefined, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text ?? '')?.[1] ?? 0);

const read = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, 'utf8');
  } catch {
    // The group has been removed, or this host does not have the controller.
    return undefined;
  }
};
