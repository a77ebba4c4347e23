import { totalmem } from 'node:os';
import { CodeBoxError } from '#contract';
import type { Capabilities } from '../driver.ts';
import { boxUser } from '../host/box-user.ts';
import type { Daemon } from './daemon.ts';

/** What the daemon can do for boxes here. */
export interface Posture {
  /** Whether boxes run on a kernel of gVisor's. */
  isGvisor: boolean;
  limits: Capabilities['limits'];
  /** Limits that a running container can be given. */
  bindableLimits: Capabilities['bind']['limits'];
  /** Whether nobody but the daemon, which does so once, writes to the control groups of containers. */
  plainCgroups: boolean;
  weaknesses: string[];
  /** The uid of an instance, as the daemon understands uids. */
  userOf: (id: string) => number;
  privateCgroups: boolean;
  /** Of the machine that the daemon runs on. */
  memoryBytes: number;
  /** What the daemon calls itself; the same after a restart. */
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
 * Asks the daemon about its runtimes, limits and security options. Throws `unavailable` when it does not know the runtime, has
 * no seccomp or cannot limit memory and processes: a box without these is not isolated.
 */
export const readPosture = async (daemon: Daemon, runtime: string, signal: AbortSignal): Promise<Posture> => {
  const info: DaemonInfo = await daemon.call(signal, (docker) => docker.info(), 10_000);
  if (!Object.hasOwn(info.Runtimes ?? {}, runtime)) {
    throw new CodeBoxError('unavailable', `The Docker daemon does not know the runtime ${runtime}.`);
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
    ...(limits.pids ? [] : ['a limit of processes']),
  ];
  if (missing.length > 0) {
    throw new CodeBoxError('unavailable', `The Docker daemon cannot apply ${missing.join(' or ')}.`);
  }
  const remapped = has('userns') || has('rootless');
  return {
    isGvisor: gvisor,
    limits,
    bindableLimits: gvisor ? [] : (['cpus', 'memoryMb', 'pids'] as const).filter((name) => limits[name] !== false),
    daemonId: info.ID ?? '',
    plainCgroups: info.CgroupDriver === 'cgroupfs',
    // A daemon in a user namespace maps 65,536 ids, so theirs are taken from these.
    userOf: remapped ? (id) => 1000 + (boxUser(id) % 60_000) : boxUser,
    memoryBytes: info.MemTotal ?? totalmem(),
    privateCgroups: info.CgroupVersion === '2',
    weaknesses: [
      ...(gvisor ? [] : ['Boxes share the kernel of the host: a bug in the kernel may let one out.']),
      ...(limits.cpus ? [] : ['The kernel cannot limit CPU time here.']),
      ...(info.SwapLimit === true
        ? []
        : ['The kernel does not limit swap here, so a box may use more than its memory.']),
      ...(has('apparmor') || has('selinux') || gvisor ? [] : ['The host has neither AppArmor nor SELinux.']),
    ],
  };
};

const perInstance = (isHeld: boolean | undefined): 'instance' | false => (isHeld === true ? 'instance' : false);
