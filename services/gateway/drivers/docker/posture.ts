import { totalmem } from 'node:os';
import { CodeBoxError } from '#contract';
import { boxUser } from '../box-user.ts';
import type { Capabilities } from '../driver.ts';
import type { Daemon } from './daemon/daemon.ts';

/** The restrictions that the daemon can enforce for boxes. */
export interface Posture {
  /** Whether boxes run on gVisor. */
  isGvisor: boolean;
  limits: Capabilities['limits'];
  /** Limits that can be changed on a running container. */
  bindableLimits: Capabilities['bind']['limits'];
  /** Whether only the daemon writes to the control groups of containers, and only once, unlike systemd. */
  plainCgroups: boolean;
  weaknesses: string[];
  /** Why no box server can be forked into a container; undefined when one can. */
  parentObstacle: string | undefined;
  /** Returns the uid of an instance in the user namespace of the daemon. */
  userOf: (id: string) => number;
  privateCgroups: boolean;
  /** The memory of the machine that the daemon runs on. */
  memoryBytes: number;
  /** The runtimes of the daemon. */
  runtimes: readonly string[];
  /** The id of the daemon, which a restart does not change. */
  daemonId: string;
}

interface DaemonInfo {
  Runtimes?: Record<string, unknown>;
  SecurityOptions?: string[];
  CgroupVersion?: string;
  CgroupDriver?: string;
  MemTotal?: number;
  ID?: string;
  MemoryLimit?: boolean;
  SwapLimit?: boolean;
  PidsLimit?: boolean;
  CpuCfsQuota?: boolean;
}

/**
 * Reads the runtimes, limits and security options of the daemon. Throws `unavailable` when the daemon lacks the runtime or seccomp, or cannot
 * limit memory and processes: a box without these is not isolated.
 */
export const readPosture = async (daemon: Daemon, runtime: string, signal: AbortSignal): Promise<Posture> => {
  const info: DaemonInfo = await daemon.call(signal, (docker) => docker.info(), 10_000);
  const runtimes = Object.keys(info.Runtimes ?? {});
  if (!runtimes.includes(runtime)) {
    throw new CodeBoxError('unavailable', `The Docker daemon has no runtime ${runtime}.`);
  }
  const options = info.SecurityOptions ?? [];
  const has = (name: string) => options.some((option) => option.split(',').includes(`name=${name}`));
  const gvisor = runtime.startsWith('runsc');
  const limits = {
    cpus: perInstance(info.CpuCfsQuota),
    memoryMb: perInstance(info.MemoryLimit),
    diskMb: perInstance(true),
    pids: perInstance(info.PidsLimit),
  };
  const missing = [
    ...(has('seccomp') || gvisor ? [] : ['seccomp']),
    ...(limits.memoryMb ? [] : ['a memory limit']),
    ...(limits.pids ? [] : ['a limit on processes']),
  ];
  if (missing.length > 0) {
    throw new CodeBoxError('unavailable', `The Docker daemon cannot apply ${missing.join(' or ')}.`);
  }
  const remapped = has('userns') || has('rootless');
  return {
    isGvisor: gvisor,
    limits,
    bindableLimits: gvisor ? [] : (['cpus', 'memoryMb', 'pids'] as const).filter((name) => limits[name] !== false),
    runtimes,
    daemonId: info.ID ?? '',
    plainCgroups: info.CgroupDriver === 'cgroupfs',
    parentObstacle: [
      gvisor && 'its kernel is that of gVisor',
      remapped && 'the daemon runs containers in a user namespace',
      has('selinux') && 'a forked process would keep the SELinux label of its parent',
    ].find((obstacle) => obstacle !== false),
    // A daemon in a user namespace maps only 65,536 ids, so uids are chosen among these.
    userOf: remapped ? (id) => 1000 + (boxUser(id) % 60_000) : boxUser,
    memoryBytes: info.MemTotal ?? totalmem(),
    privateCgroups: info.CgroupVersion === '2',
    weaknesses: [
      ...(gvisor ? [] : ['Boxes share the kernel of the host: a bug in the kernel may let a box escape.']),
      ...(limits.cpus ? [] : ['The kernel cannot limit CPU time here.']),
      ...(info.SwapLimit === true
        ? []
        : ['The kernel does not limit swap here, so a box may use more than its memory.']),
      ...(has('apparmor') || has('selinux') || gvisor ? [] : ['The host has neither AppArmor nor SELinux.']),
    ],
  };
};

const perInstance = (isEnforced: boolean | undefined): 'instance' | false => (isEnforced === true ? 'instance' : false);
