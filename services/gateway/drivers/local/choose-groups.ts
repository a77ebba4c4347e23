import type { InstanceStats } from '../driver.ts';
import type { Cgroups } from './cgroup.ts';
import type { Groups } from './groups.ts';
import type { InstanceFolders } from './instance-folder.ts';
import { createProcessGroups } from './process-group.ts';
import { isAlive } from './processes.ts';

const nothing: InstanceStats = { cpuMs: 0, memoryBytes: 0, peakMemoryBytes: 0, pids: 0, oomKills: 0 };

/** By control groups where there are some, else by the sandbox's pid namespace. */
export const createGroups = (cgroups: Cgroups | undefined, folders: InstanceFolders): Groups =>
  cgroups === undefined ? createProcessGroups(folders) : fromCgroups(cgroups, folders);

const fromCgroups = (cgroups: Cgroups, folders: InstanceFolders): Groups => ({
  ...cgroups,
  async running(id) {
    const launcher = await folders.launcher(id);
    if (launcher !== undefined && (await isAlive(launcher))) return true;
    return (await cgroups.members(id)).length > 0;
  },
  stats: async (id) => (await cgroups.stats(id)) ?? nothing,
});
