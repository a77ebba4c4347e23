import { readFile } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { CodeBoxError, hasCode } from '#contract';
import { createGate } from '../../../waiting/gate.ts';
import type { Capabilities, Driver, Instance, InstanceSpec, InstanceUsage } from '../driver.ts';
import { checkBinding } from '../host/binding.ts';
import { hostStartsAtOnce, shareOfMachine } from '../host/capacity.ts';
import { canWriteCgroup } from '../host/cgroup-limits.ts';
import { requireFreeSpace } from '../host/free-space.ts';
import { readPlace } from '../host/place.ts';
import { createSocketFolders, type SocketFolders, socketFolderKind, socketParent } from '../host/socket-folder.ts';
import { checkInstanceId } from '../instance-id.ts';
import { createMakings } from '../makings.ts';
import type { PackageSources } from '../package-sources.ts';
import { bindCgroup, bindLimits, bindNetwork } from './binding.ts';
import type { CircuitOptions } from './circuit.ts';
import { containerOptions } from './container.ts';
import { type ContainerCgroups, createContainerCgroups } from './container-cgroup.ts';
import { createDaemon, type Daemon } from './daemon.ts';
import { createDisks, type Disks } from './disk.ts';
import { type Events, followEvents } from './events.ts';
import {
  containerName,
  deploymentFilter,
  dockerLabels,
  inspectedInstance,
  isMadeFrom,
  listedInstance,
} from './instance.ts';
import { mountsReachDaemon } from './mounts.ts';
import { createInternetNetwork, type InternetNetwork } from './network.ts';
import { readPosture } from './posture.ts';
import { containerRevision, findImageId } from './revision.ts';
import { type SystemFiles, writeSystemFiles } from './system-files.ts';
import { containerUsage } from './usage.ts';

const seccompFile = new URL('../../../../images/box/seccomp.json', import.meta.url);

const createDeadlineMs = 60_000;
const removeAttempts = 4;
const freezeTries = 3;

export interface DockerDriverOptions {
  /** The data folder, absolute: images of disks and sockets of boxes are below it. */
  dataDir: string;
  /** Tells this deployment's instances from another's on the same daemon: `[a-z0-9-]{1,32}`, the same after a restart. */
  deployment: string;
  /** The name of the place where its boxes live. */
  site?: string;
  /** A runtime that the daemon knows: `runc`, `runsc`, … */
  runtime?: string;
  /** `unix:///path` or `tcp://host:port`; without it what DOCKER_HOST says, or the usual socket. */
  host?: string;
  /** Name servers of boxes with a network; private ones are out of a box's reach. */
  dns?: readonly string[];
  packages?: PackageSources;
  /** PEM texts that boxes trust beside the public certificates. Those that the image was built with need not be told again. */
  certificates?: readonly string[];
  /** Told when the daemon stops answering, and when it answers again. */
  onDaemon?: CircuitOptions['onChange'];
}

/**
 * Boxes as Docker containers. Asks the daemon what it can do and applies what boxes share (the network, its rules).
 * Throws `unavailable` when the daemon does not answer, does not know the runtime, or cannot apply what a box needs.
 */
export const createDockerDriver = async (options: DockerDriverOptions): Promise<Driver> => {
  const {
    dataDir,
    deployment,
    site = 'docker',
    runtime = 'runc',
    dns = ['1.1.1.1', '8.8.8.8'],
    packages = {},
  } = options;
  const signal = AbortSignal.timeout(60_000);
  const daemon = createDaemon(options.host, options.onDaemon);
  const parent = await socketParent(dataDir);
  const socketKind = await socketFolderKind(parent, mountsReachDaemon);
  const sockets = await createSocketFolders(parent, socketKind);
  const posture = await readPosture(daemon, runtime, signal);
  const disks = await createDisks(daemon, { folder: `${dataDir}/disks`, prefix: `codebox-${deployment}` });
  const internet = createInternetNetwork(daemon);
  const obstacle = await internet.obstacle(signal);
  const parts: Parts = {
    dataDir,
    site,
    place: await readPlace(dataDir, posture.daemonId),
    daemon,
    sockets,
    disks,
    internet,
    addressOf: (id) => sockets.describe(id).address,
    gvisor: posture.isGvisor,
    // gVisor has a network stack of its own, which takes over what is there when it starts.
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
    limits: posture.limits,
    freeze: true,
    startsAtOnce: hostStartsAtOnce(),
    bind: {
      limits: posture.bindableLimits,
      networks: parts.canTakeNetwork ? ['none', 'internet'] : [],
    },
    weaknesses: [
      ...posture.weaknesses,
      ...(disks.kind === 'tmpfs'
        ? ['Disks of boxes are held in memory and count as it: this process cannot use loop devices.']
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
  /** Of the machine that the daemon runs on. */
  memoryBytes: number;
  cgroups: ContainerCgroups;
}

const assemble = (parts: Parts, capabilities: Capabilities): Driver => {
  const { daemon, deployment } = parts;
  const gate = createGate(8);
  const usageGate = createGate(8);
  let events: Events | undefined;
  const makings = createMakings();
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
    if (!found.State.Running) throw new CodeBoxError('not_found', 'The instance does not run any more.');
    await parts.cgroups.note(id, found);
    return found;
  };

  /** Undefined for one that cannot be measured: it has ended, or only the daemon could tell and does not. */
  const measure = async (id: string, signal: AbortSignal): Promise<InstanceUsage | undefined> => {
    const known = await parts.cgroups.find(id);
    if (known) return known.usage;
    const ask = async () => containerUsage(daemon, await needRunning(id, signal), signal);
    return await usageGate(signal, ask).catch(() => undefined);
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
      const ask = () => findImageId(daemon, image, signal);
      const imageId = await (events?.imageId(image, ask) ?? ask());
      return containerRevision(image, imageId, { ...parts, takesNetwork: parts.canTakeNetwork });
    },
    async create(spec, signal) {
      checkInstanceId(spec.id);
      if (!capabilities.networks.includes(spec.network)) {
        throw new CodeBoxError('unavailable', `Boxes with network ${spec.network} cannot be had here.`);
      }
      return await makings.make(spec, signal, (wanted) =>
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
      await makings.breakOff(id, signal);
      await gate(signal, () => destroy(parts, id, signal));
    },
    list: (signal) => list(parts, signal),
    async inspect(id, signal) {
      const found = await find(id, signal);
      if (found !== undefined) return inspectedInstance(found, parts.addressOf);
      return (await leftovers(parts)).includes(id) ? halfMade(id) : undefined;
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
        // On a busy host runc gives up on processes that get no time to stop in.
        await pause().catch((error: unknown) => (left > 1 && !signal.aborted ? undefined : Promise.reject(error)));
      }
    },
    async thaw(id, signal) {
      if (!(await need(id, signal)).State.Paused) return;
      await daemon.call(signal, (_docker, abortSignal) => container(id).unpause({ abortSignal }));
    },
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
  const { daemon, sockets, disks, internet, deployment } = parts;
  await requireFreeSpace(parts.dataDir);
  const uid = parts.userOf(spec.id);
  const labels = dockerLabels(deployment, spec);
  // Outside the cleaning up: the folder may be that of an instance that exists.
  const folder = await sockets.make(spec.id, uid, signal);
  try {
    if (spec.network === 'internet') await internet.ensure(signal);
    const volume =
      disks.kind === 'image'
        ? await disks.make(spec.id, { sizeMb: spec.limits.diskMb, uid, labels }, signal)
        : undefined;
    const networkName = spec.network === 'internet' ? internet.name : 'none';
    const takesNetwork = parts.canTakeNetwork && spec.takesNetwork === true;
    const wanted = { ...spec, ...parts, takesNetwork, uid, sockets: folder, volume, networkName, dockerLabels: labels };
    // Not ended by the caller: a daemon whose client hangs up goes on, and makes what was already looked for and not found.
    const made = await daemon.call(AbortSignal.timeout(createDeadlineMs), (docker, abortSignal) =>
      docker.createContainer({ ...containerOptions(wanted, containerName(deployment, spec.id)), abortSignal }),
    );
    signal.throwIfAborted();
    await daemon.call(signal, (_docker, abortSignal) => made.start({ abortSignal }), 60_000);
    if (volume !== undefined) await disks.letGo(spec.id, signal);
    const found = await daemon.call(signal, (_docker, abortSignal) => made.inspect({ abortSignal }));
    await parts.cgroups.note(spec.id, found);
    return inspectedInstance(found, parts.addressOf);
  } catch (cause) {
    // The caller's signal may be what ended it, so cleaning up has a time of its own.
    await destroy(parts, spec.id, AbortSignal.timeout(60_000)).catch(() => undefined);
    throw cause;
  }
};

const destroy = async (parts: Parts, id: string, signal: AbortSignal): Promise<void> => {
  const { daemon, sockets, disks, deployment } = parts;
  const name = containerName(deployment, id);
  parts.cgroups.forget(id);
  await removeContainer(daemon, name, signal);
  await gone(parts, name, signal);
  await sockets.remove(id, signal);
  await disks.remove(id, signal);
};

/** A sandbox of gVisor that is just ending makes the daemon refuse; it is gone a moment later. */
const removeContainer = async (daemon: Daemon, name: string, signal: AbortSignal): Promise<void> => {
  for (let attempt = 1; ; attempt++) {
    try {
      await daemon.callIfThere(signal, (docker, abortSignal) =>
        docker.getContainer(name).remove({ force: true, v: true, abortSignal }),
      );
      return;
    } catch (error) {
      if (attempt === removeAttempts || signal.aborted) throw error;
      await new Promise((done) => setTimeout(done, 500));
    }
  }
};

/** A removal that somebody else has begun answers at once, so this waits until the container really is gone. */
const gone = async ({ daemon }: Parts, name: string, signal: AbortSignal): Promise<void> => {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const found = await daemon.callIfThere(signal, (docker, abortSignal) =>
      docker.getContainer(name).inspect({ abortSignal }),
    );
    if (found === undefined) return;
    if (performance.now() > deadline) throw new CodeBoxError('unavailable', 'The container does not go away.');
    await new Promise((done) => setTimeout(done, 50));
  }
};

const list = async (parts: Parts, signal: AbortSignal): Promise<Instance[]> => {
  const filters = deploymentFilter(parts.deployment);
  const containers = await parts.daemon.call(signal, (docker, abortSignal) =>
    docker.listContainers({ all: true, filters, abortSignal }),
  );
  const instances = containers.map((found) => listedInstance(found, parts.addressOf));
  const known = new Set(instances.map(({ id }) => id));
  const halves = (await leftovers(parts)).filter((id) => !known.has(id));
  return [...instances, ...halves.map(halfMade)];
};

/** What a crash in mid-create left: the ids of folders and disks, which may be without a container. */
const leftovers = async ({ sockets, disks }: Parts): Promise<string[]> => [
  ...new Set([...(await sockets.list()), ...(await disks.list())]),
];

const halfMade = (id: string): Instance => ({
  id,
  state: 'ended',
  why: { code: 'exit', detail: 'it has no container' },
});
