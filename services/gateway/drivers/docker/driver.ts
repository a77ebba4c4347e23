import { readFile } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { CodeBoxError, hasCode } from '#contract';
import { createGate } from '../../../waiting/gate.ts';
import { checkBinding } from '../binding.ts';
import type { CircuitOptions } from '../circuit.ts';
import { createCreations } from '../creations.ts';
import type { Capabilities, Driver, InstanceUsage } from '../driver.ts';
import { hostStarts, shareOfMachine } from '../host/capacity.ts';
import { canWriteCgroup } from '../host/cgroup-limits.ts';
import { requireFreeSpace } from '../host/free-space.ts';
import { publicNameServers } from '../host/name-servers.ts';
import { readPlace } from '../host/place.ts';
import { createSocketFolders, socketFolderKind, socketParent } from '../host/socket-folder.ts';
import { createVolumeImages } from '../host/volume-images.ts';
import { checkInstanceId } from '../instance-id.ts';
import { type PackageSources, registryEndpoints } from '../package-sources.ts';
import { createParents, type ForkDeadlines } from '../parent/parents.ts';
import { findParentsFolder } from '../parent/shared-parent.ts';
import { bindCgroup, bindLimits, bindNetwork } from './containers/binding.ts';
import { createContainerCgroups } from './containers/cgroup.ts';
import { containerName, inspectedInstance, isMadeFrom } from './containers/instance.ts';
import { mountsReachDaemon, sharesFilesWithDaemon } from './containers/mounts.ts';
import { containerRevision, findImageId } from './containers/revision.ts';
import { writeSystemFiles } from './containers/system-files.ts';
import { containerUsage } from './containers/usage.ts';
import { createDaemon } from './daemon/daemon.ts';
import { type Events, followEvents } from './daemon/events.ts';
import { createDisks } from './disk.ts';
import { createGpuDevices, type DevicesByKind } from './gpus.ts';
import { create, destroy, incomplete, leftovers, list, type Parts } from './instances.ts';
import { createInternetNetwork } from './network/network.ts';
import { createImageParents } from './parent/image-parents.ts';
import { findParentContainer } from './parent/start.ts';
import { readPosture } from './posture.ts';

const seccompFile = new URL('../../../../images/box/seccomp.json', import.meta.url);

const freezeTries = 3;

export interface DockerDriverOptions {
  /** The absolute path of the data folder, which contains the disk images and the sockets of boxes. */
  dataDir: string;
  /** Distinguishes this deployment's instances from others on the same daemon: `[a-z0-9-]{1,32}`, the same after a restart. */
  deployment: string;
  /** The name of the site where its boxes run. */
  site?: string;
  /** A runtime that is configured in the daemon: `runc`, `runsc`, … */
  runtime?: string;
  /** `unix:///path` or `tcp://host:port`; the default is DOCKER_HOST, or the standard socket. */
  host?: string;
  /** The name servers of boxes with a network; boxes cannot reach private ones. */
  dns?: readonly string[];
  packages?: PackageSources;
  /** The sum of the sizes of volumes, in MiB; by default half of the file system of the data folder. */
  volumesMb?: number | undefined;
  /** Devices of which each belongs to one instance; by default instances share all GPUs of the host. */
  gpus?: DevicesByKind;
  /** PEM texts that boxes trust in addition to the public certificates and those that the image was built with. */
  certificates?: readonly string[];
  /** Called when the daemon stops responding, and when it responds again. */
  onBackend?: CircuitOptions['onChange'];
  /** Whether box servers are forked from one container for each image, which has nearly all rights on the host; false by default. */
  sharedParent?: boolean;
  /**
   * The folder where gateways find those containers. By default all deployments of root on this host share one; a gateway that does not see
   * the files of the daemon's host has its own.
   */
  parentsFolder?: string;
  /** Called after each fork, with the reason of one that failed: that box starts a server of its own. */
  onFork?: (failure?: unknown) => void;
  forkDeadlines?: ForkDeadlines;
}

/**
 * Runs boxes as Docker containers. Reads the abilities of the daemon and sets up what boxes share (the network and its rules). Throws
 * `unavailable` when the daemon does not respond, lacks the runtime, or cannot enforce what a box needs.
 */
export const createDockerDriver = async (options: DockerDriverOptions): Promise<Driver> => {
  const { dataDir, deployment, site = 'docker', runtime = 'runc', dns = publicNameServers, packages = {} } = options;
  const { gpus: devices = {}, volumesMb: limitMb } = options;
  const signal = AbortSignal.timeout(60_000);
  const daemon = createDaemon(options.host, options.onBackend);
  const parent = await socketParent(dataDir);
  const socketKind = await socketFolderKind(parent, mountsReachDaemon);
  const sockets = await createSocketFolders(parent, socketKind);
  const posture = await readPosture(daemon, runtime, signal);
  if (options.sharedParent && posture.parentObstacle !== undefined)
    throw new CodeBoxError(
      'unavailable',
      `Box servers cannot be forked from a parent here: ${posture.parentObstacle}.`,
    );
  const disks = await createDisks(daemon, { folder: `${dataDir}/disks`, prefix: `codebox-${deployment}` });
  // Where disks cannot be mounted, volumes cannot either.
  const volumes = disks.kind === 'image' ? await createVolumeImages(`${dataDir}/volumes`, { limitMb }) : undefined;
  const internet = createInternetNetwork(daemon, { deployment, endpoints: registryEndpoints(packages) });
  const obstacle = await internet.obstacle(signal);
  const seccomp = JSON.stringify(JSON.parse(await readFile(seccompFile, 'utf8')));
  const findParent = async (image: string, wanted: AbortSignal) => {
    const folder = options.parentsFolder ?? (await findParentsFolder(parent, await sharesFilesWithDaemon()));
    return await findParentContainer(
      daemon,
      posture.daemonId,
      { deployment, image, packages, seccomp },
      folder,
      wanted,
    );
  };
  const parts: Parts = {
    dataDir,
    site,
    place: await readPlace(dataDir, posture.daemonId),
    daemon,
    sockets,
    disks,
    gpuDevices: createGpuDevices({ folder: `${dataDir}/gpus`, devices, runtimes: posture.runtimes }),
    volumes,
    internet,
    addressOf: (id) => sockets.describe(id).address,
    gvisor: posture.isGvisor,
    // gVisor has its own network stack, which adopts only the interfaces that exist when it starts.
    canTakeNetwork: obstacle === undefined && !posture.isGvisor,
    deployment,
    runtime,
    dns,
    packages,
    systemFiles: await writeSystemFiles(`${dataDir}/system-files`, options.certificates ?? []),
    seccomp,
    parents: options.sharedParent
      ? createImageParents((image) =>
          createParents((wanted) => findParent(image, wanted), options.onFork, options.forkDeadlines),
        )
      : undefined,
    userOf: posture.userOf,
    privateCgroups: posture.privateCgroups,
    plainCgroups: posture.plainCgroups,
    memoryBytes: posture.memoryBytes,
    cgroups: createContainerCgroups(),
  };
  const capabilities: Capabilities = {
    images: true,
    networks: obstacle === undefined ? ['none', 'internet'] : ['none'],
    networkObstacles: obstacle === undefined ? {} : { internet: obstacle },
    disk: { isFullAnError: true },
    ...(volumes === undefined && {
      volumesObstacle: 'the gateway cannot use loop devices, for which it has to be root',
    }),
    hasOwnKernel: posture.isGvisor,
    limits: posture.limits,
    freeze: true,
    ...hostStarts(parts.parents !== undefined),
    bind: {
      limits: posture.bindableLimits,
      networks: parts.canTakeNetwork ? ['none', 'internet'] : [],
      // The daemon mounts at the start of a container only.
      volumes: false,
    },
    weaknesses: [
      ...posture.weaknesses,
      ...(disks.kind === 'tmpfs'
        ? ['Disks of boxes are held in memory and count against its limit: this process cannot use loop devices.']
        : []),
      ...(socketKind === 'plain'
        ? ['A box can fill the file system that holds its socket: this process cannot mount there.']
        : []),
    ],
  };
  return assemble(parts, capabilities);
};

const assemble = (parts: Parts, capabilities: Capabilities): Driver => {
  const { daemon, deployment, volumes, userOf } = parts;
  const gate = createGate(8);
  const usageGate = createGate(8);
  let events: Events | undefined;
  const creations = createCreations();
  const container = (id: string) => daemon.docker.getContainer(containerName(deployment, id));
  const find = (id: string, signal: AbortSignal) =>
    daemon.callIfThere(signal, (_docker, abortSignal) => container(id).inspect({ abortSignal }));
  const need = async (id: string, signal: AbortSignal): Promise<ContainerInspectInfo> => {
    const found = await find(id, signal);
    if (found === undefined) throw new CodeBoxError('not_found', 'There is no such instance.');
    return found;
  };
  const needRunning = async (id: string, signal: AbortSignal): Promise<ContainerInspectInfo> => {
    const found = await need(id, signal);
    if (!found.State.Running) throw new CodeBoxError('not_found', 'The instance has ended.');
    await parts.cgroups.note(id, found);
    return found;
  };

  /** Returns undefined for an instance that cannot be measured: it has ended, or the daemon does not respond. */
  const measure = async (id: string, signal: AbortSignal): Promise<InstanceUsage | undefined> => {
    const known = await parts.cgroups.find(id);
    if (known) return known.usage;
    const read = async () => containerUsage(daemon, await needRunning(id, signal), signal);
    return await usageGate(signal, read).catch(() => undefined);
  };

  return {
    kind: 'docker',
    site: parts.site,
    place: parts.place,
    capabilities,
    async ping(signal) {
      await requireFreeSpace(parts.dataDir);
      await daemon.call(signal, (docker) => docker.ping());
    },
    capacity: async () => shareOfMachine(parts.memoryBytes),
    async revision(image, signal) {
      const find = () => findImageId(daemon, image, signal);
      const imageId = await (events?.imageId(image, find) ?? find());
      const isForked = parts.parents !== undefined;
      return containerRevision(image, imageId, { ...parts, isForked, takesNetwork: parts.canTakeNetwork });
    },
    gpuObstacle: parts.gpuDevices.obstacle,
    lacksImage: async (image, signal) => (await findImageId(daemon, image, signal)) === undefined,
    async create(spec, signal) {
      checkInstanceId(spec.id);
      if (!capabilities.networks.includes(spec.network)) {
        throw new CodeBoxError('unavailable', `Boxes with network ${spec.network} are not available here.`);
      }
      return await creations.create(spec, signal, (wanted) =>
        gate(wanted, () => create(parts, spec, wanted)).catch(async (error: unknown) => {
          if (!hasCode(error, 'conflict')) throw error;
          const found = await find(spec.id, wanted);
          if (found === undefined || !isMadeFrom(found, spec)) throw error;
          return inspectedInstance(found, parts.addressOf);
        }),
      );
    },
    async destroy(id, signal) {
      checkInstanceId(id);
      await creations.cancel(id, signal);
      await gate(signal, () => destroy(parts, id, signal));
    },
    list: (signal) => list(parts, signal),
    async inspect(id, signal) {
      const found = await find(id, signal);
      if (found !== undefined) return inspectedInstance(found, parts.addressOf);
      return (await leftovers(parts)).includes(id) ? incomplete(id) : undefined;
    },
    async bind(id, change, signal) {
      checkBinding(capabilities, change);
      const known = parts.plainCgroups && change.network === undefined ? await parts.cgroups.find(id) : undefined;
      if (known && change.limits !== undefined && (await canWriteCgroup(known.folders)))
        return await bindCgroup(known.folders, change.limits);
      const found = await needRunning(id, signal);
      if (change.limits !== undefined) await bindLimits(parts, found, change.limits, signal);
      if (change.network !== undefined) await bindNetwork(parts, found, change.network, signal);
    },
    async freeze(id, signal) {
      for (let left = freezeTries; !(await need(id, signal)).State.Paused; left--) {
        const pause = () => daemon.call(signal, (_docker, abortSignal) => container(id).pause({ abortSignal }));
        // On a busy host runc fails when processes get no CPU time in which to stop, so it is tried again.
        await pause().catch((error: unknown) => (left > 1 && !signal.aborted ? undefined : Promise.reject(error)));
      }
    },
    async thaw(id, signal) {
      if (!(await need(id, signal)).State.Paused) return;
      await daemon.call(signal, (_docker, abortSignal) => container(id).unpause({ abortSignal }));
    },
    ...(volumes && {
      volumes: {
        make: (volume, signal) => volumes.make(volume, userOf(volume.owner), signal),
        remove: volumes.remove,
        list: volumes.list,
      },
    }),
    async usage(ids, signal) {
      const measured = ids.map(async (id) => [id, await measure(id, signal)] as const);
      return new Map((await Promise.all(measured)).flatMap(([id, usage]) => (usage ? [[id, usage]] : [])));
    },
    watch(onEnd) {
      events = followEvents({ daemon, deployment, onEnd });
      return events;
    },
  };
};
