import type { Cgroups } from './cgroup.ts';
import type { Groups } from './groups.ts';
import type { InstanceFolders } from './instance-folder.ts';
import { createProcessGroups } from './process-group.ts';
import { isAlive } from './processes.ts';

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
});
