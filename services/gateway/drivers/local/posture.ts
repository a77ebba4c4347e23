import { CodeBoxError } from '#contract';
import type { Capabilities } from '../driver.ts';
import { runHostCommand } from '../host/host-command.ts';
import { type Cgroups, createCgroups, findCgroupHierarchy } from './groups/cgroup.ts';
import { usr } from './sandbox.ts';

/** The restrictions that the host can enforce for sandboxes. */
export interface LocalPosture {
  cgroups: Cgroups | undefined;
  supportsNoNestedUsers: boolean;
  limits: Omit<Capabilities['limits'], 'diskMb'>;
  weaknesses: string[];
}

/**
 * Tries bubblewrap with namespaces and the seccomp filter, and looks for control groups. Throws `unavailable` when the sandbox does not work,
 * or when there are no control groups for root: that is a misconfiguration that a box could exploit.
 */
export const readPosture = async ({
  root,
  deployment,
  filter,
}: {
  root: boolean;
  deployment: string;
  filter: string;
}): Promise<LocalPosture> => {
  const supportsNoNestedUsers = !root && (await works(['--unshare-user', '--disable-userns'], filter));
  if (!(await works(root ? [] : ['--unshare-user'], filter))) {
    throw new CodeBoxError(
      'unavailable',
      'Sandboxes do not work on this host: bubblewrap is missing, too old, or not allowed to create namespaces.',
    );
  }
  const hierarchy = root ? await findCgroupHierarchy() : undefined;
  if (root && hierarchy === undefined) {
    throw new CodeBoxError('unavailable', 'This host has no control groups with which to limit boxes.');
  }
  const cgroups = hierarchy === undefined ? undefined : createCgroups(hierarchy, deployment);
  const limited = cgroups !== undefined;
  return {
    cgroups,
    supportsNoNestedUsers,
    limits: limited ? { cpus: 'instance', memoryMb: 'instance', pids: 'instance' } : unlimited,
    weaknesses: [
      'Boxes share the kernel of the host: a bug in the kernel may let a box escape.',
      'Boxes can read the programs of this host: its /usr is mounted in them, read-only.',
      ...(root ? [] : ['All boxes run as the user of the gateway, who is not root.']),
      ...(root || supportsNoNestedUsers
        ? []
        : ['Only the seccomp filter prevents a box from creating user namespaces.']),
      ...(limited ? [] : ['CPU time, memory and processes of boxes are not limited, only the memory of each process.']),
    ],
  };
};

const unlimited = { cpus: false, memoryMb: false, pids: false } as const;

/** Runs `true` in a sandbox with every feature of bubblewrap that boxes need; returns whether it succeeds. */
const works = async (options: readonly string[], filter: string): Promise<boolean> => {
  const spaces = ['--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--unshare-cgroup-try'];
  // Not the whole file system: mounts of other boxes in it may end meanwhile.
  const files = [...usr(), '--proc', '/proc', '--dev', '/dev', '--perms', '1777', '--size', '65536', '--tmpfs', '/tmp'];
  const bwrap = ['bwrap', ...spaces, ...options, ...files, '--new-session', '--seccomp', '3', '--', '/bin/true'];
  try {
    await runHostCommand(['/bin/sh', '-c', 'filter=$1; shift; exec "$@" 3< "$filter"', 'sh', filter, ...bwrap]);
    return true;
  } catch {
    // A failure is a result: the caller decides what it means.
    return false;
  }
};
