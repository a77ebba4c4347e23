import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceUsage } from '../../driver.ts';
import { type CgroupFolders, cgroupOf, readCgroupUsage } from '../../host/cgroup.ts';

/** The control group of a running container, or undefined when this process cannot see it. */
export const containerCgroup = async ({ Id, State }: ContainerInspectInfo): Promise<CgroupFolders | undefined> => {
  const folders = await cgroupOf(State.Pid);
  // A process id from another namespace may belong to another process here; the container's id in the path proves that it does not.
  const own = [folders?.memory, folders?.unified].some((path) => path?.includes(Id));
  return own ? folders : undefined;
};

/**
 * The control groups of containers that this process has seen running, by instance id: querying the daemon each time would take longer than
 * the rest of a claim.
 */
export const createContainerCgroups = () => {
  const known = new Map<string, CgroupFolders>();

  return {
    async note(id: string, found: ContainerInspectInfo): Promise<void> {
      const folders = found.State.Running ? await containerCgroup(found) : undefined;
      if (folders !== undefined) known.set(id, folders);
    },

    /** Returns the control group and its usage while processes run in it; undefined when only the daemon can determine them. */
    async find(id: string): Promise<{ folders: CgroupFolders; usage: InstanceUsage } | undefined> {
      const folders = known.get(id);
      const usage = folders && (await readCgroupUsage(folders));
      if (folders && usage && usage.pids > 0) return { folders, usage };
      known.delete(id);
      return undefined;
    },

    forget(id: string): void {
      known.delete(id);
    },
  };
};

export type ContainerCgroups = ReturnType<typeof createContainerCgroups>;
