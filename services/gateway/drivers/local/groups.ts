import type { BindableLimits, InstanceStats, Limits } from '../driver.ts';
import type { Cgroups } from './cgroup.ts';
import type { InstanceFolders } from './instance-folder.ts';
import { createProcessGroups } from './process-group.ts';
import { isAlive } from './processes.ts';

/** How the processes of a box are held together: stopped, counted, limited and ended as one. */
export interface Groups {
  make(id: string, limits: Limits): Promise<void>;
  /** Changes limits of what runs; returns when they are in force. */
  limit(id: string, limits: Partial<BindableLimits>): Promise<void>;
  joinFiles(id: string): string[];
  visible(id: string): { source: string; target: string }[];
  running(id: string): Promise<boolean>;
  freeze(id: string): Promise<void>;
  thaw(id: string): Promise<void>;
  /** Ends all; returns when they are gone. Idempotent. */
  kill(id: string): Promise<void>;
  remove(id: string): Promise<void>;
  list(): Promise<Map<string, Date>>;
  stats(id: string): Promise<InstanceStats>;
}

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
