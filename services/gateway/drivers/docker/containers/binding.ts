import type { ContainerInspectInfo } from 'dockerode';
import { CodeBoxError } from '#contract';
import { networkIsFixed } from '../../binding.ts';
import type { BindableLimits, NetworkPolicy } from '../../driver.ts';
import type { CgroupFolders } from '../../host/cgroup.ts';
import { canWriteCgroup, checkCgroupLimits, checkMemoryUse, writeCgroupLimits } from '../../host/cgroup-limits.ts';
import type { Daemon } from '../daemon/daemon.ts';
import type { InternetNetwork } from '../network/network.ts';
import { containerCgroup } from './cgroup.ts';

const MiB = 1024 * 1024;

/**
 * Changes the limits of a running container and reads them back. They are written to its control group, which takes a millisecond, if this
 * process may do that and no systemd would undo it; otherwise the daemon changes them. Throws `unavailable` when they are not in force.
 */
export const bindLimits = async (
  { daemon, plainCgroups }: { daemon: Daemon; plainCgroups: boolean },
  found: ContainerInspectInfo,
  limits: Partial<BindableLimits>,
  signal: AbortSignal,
): Promise<void> => {
  const folders = await containerCgroup(found);
  if (folders === undefined || !(await canWriteCgroup(folders)))
    return await updateContainer(daemon, found, limits, signal);
  if (plainCgroups) return await bindCgroup(folders, limits);
  await checkMemoryUse(folders, limits);
  await updateContainer(daemon, found, limits, signal);
  await checkCgroupLimits(folders, limits);
};

/** Writes limits to a control group and reads them back. */
export const bindCgroup = async (folders: CgroupFolders, limits: Partial<BindableLimits>): Promise<void> => {
  await writeCgroupLimits(folders, limits);
  await checkCgroupLimits(folders, limits);
};

/** Changes limits through the daemon and reads them back from it. */
const updateContainer = async (
  daemon: Daemon,
  { Id }: ContainerInspectInfo,
  { cpus, memoryMb, pids }: Partial<BindableLimits>,
  signal: AbortSignal,
): Promise<void> => {
  const container = daemon.docker.getContainer(Id);
  const wanted = {
    ...(memoryMb !== undefined && { Memory: memoryMb * MiB, MemorySwap: memoryMb * MiB }),
    ...(cpus !== undefined && { NanoCpus: Math.round(cpus * 1e9) }),
    ...(pids !== undefined && { PidsLimit: pids }),
  };
  await daemon.call(signal, (_docker, abortSignal) => container.update({ ...wanted, abortSignal }));
  const { HostConfig: now } = await daemon.call(signal, (_docker, abortSignal) => container.inspect({ abortSignal }));
  for (const [name, value] of Object.entries(wanted)) {
    if (now[name as keyof typeof wanted] === value) continue;
    throw new CodeBoxError('unavailable', 'A limit of the box is not in force.', { cause: new Error(name) });
  }
};

/**
 * Disconnects a running container from every network but that of its new policy, and reads the result back. The packet filter rules of the
 * network are in force before the container is connected.
 */
export const bindNetwork = async (
  { daemon, internet }: { daemon: Daemon; internet: InternetNetwork },
  found: ContainerInspectInfo,
  policy: NetworkPolicy,
  signal: AbortSignal,
): Promise<void> => {
  // Docker's type lacks the field. The daemon would connect the container without an error and without any effect in the box.
  if ('NetworkDisabled' in found.Config && found.Config.NetworkDisabled === true) {
    if (policy === 'none') return;
    throw networkIsFixed();
  }
  if (policy === 'internet') await internet.ensure(signal);
  // The daemon has an empty network that is called `none`.
  const wanted = policy === 'internet' ? internet.name : 'none';
  const Container = found.Id;
  const connected = networksOf(found);
  for (const name of connected.filter((name) => name !== wanted)) {
    await daemon.call(signal, (docker, abortSignal) =>
      docker.getNetwork(name).disconnect({ Container, Force: true, abortSignal }),
    );
  }
  if (!connected.includes(wanted)) {
    await daemon.call(signal, (docker) => docker.getNetwork(wanted).connect({ Container }));
  }
  const now = await daemon.call(signal, (docker, abortSignal) =>
    docker.getContainer(Container).inspect({ abortSignal }),
  );
  if (networksOf(now).join() === wanted) return;
  throw new CodeBoxError('unavailable', 'The network of the box could not be changed.', {
    cause: new Error(`it is on ${networksOf(now).join() || 'none'}`),
  });
};

const networksOf = ({ NetworkSettings }: ContainerInspectInfo): string[] => Object.keys(NetworkSettings.Networks);
