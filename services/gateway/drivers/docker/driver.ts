import { readFile } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { CodeBoxError, hasCode } from '#contract';
import { createGate } from '../../../waiting/gate.ts';
import { checkBinding } from '../binding.ts';
import type { CircuitOptions } from '../circuit.ts';
import { createCreations } from '../creations.ts';
import type { Capabilities, Driver, Instance, InstanceSpec, InstanceUsage } from '../driver.ts';
import { hostStartsAtOnce, shareOfMachine } from '../host/capacity.ts';
import { canWriteCgroup } from '../host/cgroup-limits.ts';
import { requireFreeSpace } from '../host/free-space.ts';
import { publicNameServers } from '../host/name-servers.ts';
import { readPlace } from '../host/place.ts';
import { createSocketFolders, type SocketFolders, socketFolderKind, socketParent } from '../host/socket-folder.ts';
import { createVolumeImages, type VolumeImages } from '../host/volume-images.ts';
import { InstanceFailed } from '../instance-failed.ts';
import { checkInstanceId } from '../instance-id.ts';
import { largestFileOf } from '../largest-file.ts';
import { type PackageSources, registryEndpoints } from '../package-sources.ts';
import { bindCgroup, bindLimits, bindNetwork } from './containers/binding.ts';
import { type ContainerCgroups, createContainerCgroups } from './containers/cgroup.ts';
import { containerOptions } from './containers/container.ts';
import {
  containerName,
  deploymentFilter,
  dockerLabels,
  inspectedInstance,
  isMadeFrom,
  listedInstance,
} from './containers/instance.ts';
import { mountsReachDaemon } from './containers/mounts.ts';
import { removeContainer } from './containers/removal.ts';
import { containerRevision, findImageId } from './containers/revision.ts';
import { type SystemFiles, writeSystemFiles } from './containers/system-files.ts';
import { containerUsage } from './containers/usage.ts';
import { createDaemon, type Daemon, httpStatus } from './daemon/daemon.ts';
import { type Events, followEvents } from './daemon/events.ts';
import { createDisks, type Disks } from './disk.ts';
import { createGpuDevices, type DevicesByKind, type GpuDevices, throwLackOfGpu } from './gpus.ts';
import { createInternetNetwork, type InternetNetwork } from './network/network.ts';
import { readPosture } from './posture.ts';
import { forgetVolumes, holdVolumes } from './volumes.ts';

const seccompFile = new URL('../../../../images/box/seccomp.json', import.meta.url);

const createDeadlineMs = 60_000;
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
  const disks = await createDisks(daemon, { folder: `${dataDir}/disks`, prefix: `codebox-${deployment}` });
  // Where disks cannot be mounted, volumes cannot either.
  const volumes = disks.kind === 'image' ? await createVolumeImages(`${dataDir}/volumes`, { limitMb }) : undefined;
  const internet = createInternetNetwork(daemon, { deployment, endpoints: registryEndpoints(packages) });
  const obstacle = await internet.obstacle(signal);
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
    seccomp: JSON.stringify(JSON.parse(await readFile(seccompFile, 'utf8'))),
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
    startsAtOnce: hostStartsAtOnce(),
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

interface Parts {
  site: string;
  place: string;
  dataDir: string;
  daemon: Daemon;
  sockets: SocketFolders;
  disks: Disks;
  gpuDevices: GpuDevices;
  /** Undefined where boxes cannot have volumes. */
  volumes: VolumeImages | undefined;
  internet: InternetNetwork;
  addressOf: (id: string) => string;
  gvisor: boolean;
  canTakeNetwork: boolean;
  deployment: string;
  runtime: string;
  dns: readonly string[];
  packages: PackageSources;
  systemFiles: SystemFiles;
  seccomp: string;
  userOf: (id: string) => number;
  privateCgroups: boolean;
  plainCgroups: boolean;
  /** The memory of the machine that the daemon runs on. */
  memoryBytes: number;
  cgroups: ContainerCgroups;
}

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
      return containerRevision(image, imageId, { ...parts, takesNetwork: parts.canTakeNetwork });
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

const create = async (parts: Parts, spec: InstanceSpec, signal: AbortSignal): Promise<Instance> => {
  const { daemon, sockets, disks, gpuDevices, internet, deployment } = parts;
  await requireFreeSpace(parts.dataDir);
  await using devices = new AsyncDisposableStack();
  // All files of volumes belong to the user of their owner, as the daemon cannot map owners.
  const uid = parts.userOf(spec.volumes?.[0]?.owner ?? spec.id);
  const labels = dockerLabels(deployment, spec);
  // Before the `try`, whose clean-up must not remove the folder of an existing instance.
  const folder = await sockets.make(spec.id, uid, signal);
  try {
    if (spec.network === 'internet') await internet.ensure(signal);
    const volume =
      disks.kind === 'image' ? await disks.make(spec.id, { sizeMb: spec.limits.diskMb, uid }, signal) : undefined;
    const gpuRequest = spec.gpus && (await gpuDevices.claim(spec.id, spec.gpus, signal));
    const networkName = spec.network === 'internet' ? internet.name : 'none';
    const takesNetwork = parts.canTakeNetwork && spec.takesNetwork === true;
    const mounts = await holdVolumes(parts.volumes, containerName(deployment, spec.id), spec.volumes, devices, signal);
    const own = { takesNetwork, uid, sockets: folder, volume, networkName, gpuRequest, dockerLabels: labels };
    const wanted = { ...spec, ...parts, ...own, volumes: mounts, largestFileMb: largestFileOf(spec) };
    // Independent of the caller's signal: a daemon whose client disconnects continues, and would create the container after the clean-up.
    const made = await daemon
      .call(AbortSignal.timeout(createDeadlineMs), (docker, abortSignal) =>
        docker.createContainer({ ...containerOptions(wanted, containerName(deployment, spec.id)), abortSignal }),
      )
      .catch(throwLackOfImage);
    signal.throwIfAborted();
    await daemon
      .call(signal, (_docker, abortSignal) => made.start({ abortSignal }), 60_000)
      .catch(spec.gpus ? throwLackOfGpu : undefined);
    const inspecting = daemon.call(signal, (_docker, abortSignal) => made.inspect({ abortSignal }));
    const releasing = volume && disks.release(spec.id, signal);
    // Both end before the clean-up, which a late detachment must not disturb.
    await Promise.allSettled([inspecting, releasing]);
    const [found] = await Promise.all([inspecting, releasing]);
    await parts.cgroups.note(spec.id, found);
    return inspectedInstance(found, parts.addressOf);
  } catch (cause) {
    // The caller's signal may have caused the failure, so the clean-up has a deadline of its own.
    await destroy(parts, spec.id, AbortSignal.timeout(60_000)).catch(() => undefined);
    throw cause;
  }
};

/** Throws InstanceFailed for a 404 of the creation, at which the daemon looks only for the image. */
const throwLackOfImage = (error: unknown): never => {
  const refusal = error instanceof Error ? error.cause : undefined;
  if (httpStatus(refusal) !== 404) throw error;
  throw new InstanceFailed({ code: 'image', detail: String(refusal) }, error);
};

const destroy = async (parts: Parts, id: string, signal: AbortSignal): Promise<void> => {
  const { daemon, sockets, disks, gpuDevices, deployment } = parts;
  const name = containerName(deployment, id);
  parts.cgroups.forget(id);
  // A paused sandbox of gVisor gets no signal, and the daemon waits ten seconds before it does without.
  if (parts.gvisor)
    await daemon
      .call(signal, (docker, abortSignal) => docker.getContainer(name).unpause({ abortSignal }))
      .catch(() => undefined);
  await removeContainer(daemon, name, signal);
  await gpuDevices.release(id);
  if (parts.volumes) await forgetVolumes(daemon, { deployment, instance: id }, signal);
  await sockets.remove(id, signal);
  await disks.remove(id, signal);
};

const list = async (parts: Parts, signal: AbortSignal): Promise<Instance[]> => {
  const filters = deploymentFilter(parts.deployment);
  const containers = await parts.daemon.call(signal, (docker, abortSignal) =>
    docker.listContainers({ all: true, filters, abortSignal }),
  );
  const instances = containers.map((found) => listedInstance(found, parts.addressOf));
  const known = new Set(instances.map(({ id }) => id));
  const rest = (await leftovers(parts)).filter((id) => !known.has(id));
  return [...instances, ...rest.map(incomplete)];
};

/** Returns the ids with folders, disks or GPUs, which may be without a container after a crash during creation. */
const leftovers = async ({ sockets, disks, gpuDevices }: Parts): Promise<string[]> => [
  ...new Set((await Promise.all([sockets.list(), disks.list(), gpuDevices.list()])).flat()),
];

const incomplete = (id: string): Instance => ({
  id,
  state: 'ended',
  why: { code: 'exit', detail: 'it has no container' },
});
