import type { ContainerInspectInfo } from 'dockerode';
import { type CgroupFolders, cgroupOf } from '../cgroup.ts';

/** The control group of a running container, or undefined when this process cannot see it. */
export const containerCgroup = async ({ Id, State }: ContainerInspectInfo): Promise<CgroupFolders | undefined> => {
  const folders = await cgroupOf(State.Pid);
  // A process id of another namespace may be somebody else's here; the container's id in the path is the proof.
  const own = [folders?.memory, folders?.unified].some((path) => path?.includes(Id));
  return own ? folders : undefined;
};
