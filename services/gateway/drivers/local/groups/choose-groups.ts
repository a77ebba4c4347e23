import type { InstanceFolders } from '../instances/instance-folder.ts';
import { isAlive } from '../instances/processes.ts';
import type { Cgroups } from './cgroup.ts';
import type { Groups } from './groups.ts';
import { createProcessGroups } from './process-group.ts';

/** Manages processes through control groups if available, otherwise through the pid namespace of the sandbox. */
export const createGroups = (cgroups: Cgroups | undefined, folders: InstanceFolders): Groups =>
  cgroups === undefined ? createProcessGroups(folders) : fromCgroups(cgroups, folders);

const fromCgroups = (cgroups: Cgroups, folders: InstanceFolders): Groups => ({
  ...cgroups,
  async running(id) {
    const launcher = await folders.launcher(id);
    if (launcher !== undefined && (await isAlive(launcher))) return true;
    return (await cgroups.members(id)).length > 0;
  },
});
