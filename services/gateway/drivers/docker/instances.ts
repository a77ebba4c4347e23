import type { ContainerInspectInfo } from 'dockerode';
import type { Instance, InstanceSpec } from '../driver.ts';
import { requireFreeSpace } from '../host/free-space.ts';
import type { SocketFolders } from '../host/socket-folder.ts';
import type { VolumeImages } from '../host/volume-images.ts';
import { InstanceFailed } from '../instance-failed.ts';
import { largestFileOf } from '../largest-file.ts';
import type { PackageSources } from '../package-sources.ts';
import type { Parents } from '../parent/parents.ts';
import { resourceLimitsOf } from '../resource-limits.ts';
import type { ContainerCgroups } from './containers/cgroup.ts';
import { type ContainerSpec, containerOptions } from './containers/container.ts';
import {
  containerName,
  deploymentFilter,
  dockerLabels,
  inspectedInstance,
  listedInstance,
} from './containers/instance.ts';
import { removeContainer } from './containers/removal.ts';
import { findImageId } from './containers/revision.ts';
import type { SystemFiles } from './containers/system-files.ts';
import { type Daemon, httpStatus } from './daemon/daemon.ts';
import type { Disks } from './disk.ts';
import { type GpuDevices, throwLackOfGpu } from './gpus.ts';
import type { InternetNetwork } from './network/network.ts';
import type { ImageParents } from './parent/image-parents.ts';
import { forgetVolumes, holdVolumes } from './volumes.ts';

const createDeadlineMs = 60_000;

/** What the instances of a driver have in common. */
export interface Parts {
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
  /** Undefined where every box starts its own server. */
  parents: ImageParents | undefined;
  userOf: (id: string) => number;
  privateCgroups: boolean;
  plainCgroups: boolean;
  /** The memory of the machine that the daemon runs on. */
  memoryBytes: number;
  cgroups: ContainerCgroups;
}

export const create = async (parts: Parts, spec: InstanceSpec, signal: AbortSignal): Promise<Instance> => {
  await requireFreeSpace(parts.dataDir);
  const source = await forkSource(parts, spec, signal);
  if (source !== undefined)
    try {
      return await createContainer(parts, spec, source, signal);
    } catch (error) {
      if (!(error instanceof NotForked)) throw error;
      // It starts a server of its own, in a container that a late fork does not know.
    }
  return await createContainer(parts, spec, undefined, signal);
};

/** Where the box server of a container is forked. */
interface ForkSource {
  /** The image of the parent. */
  imageId: string;
  parents: Parents;
}

/** The container has been removed, because its box server could not be forked. */
class NotForked extends Error {}

/** Returns undefined when an instance has to start a server of its own. */
const forkSource = async (
  { parents: parentsOf, daemon }: Parts,
  spec: InstanceSpec,
  signal: AbortSignal,
): Promise<ForkSource | undefined> => {
  if (parentsOf === undefined || spec.parent === false) return undefined;
  const imageId = await findImageId(daemon, spec.image, signal);
  if (imageId === undefined) return undefined;
  const parents = parentsOf(imageId);
  return (await parents.ready(signal)) ? { imageId, parents } : undefined;
};

const createContainer = async (
  parts: Parts,
  spec: InstanceSpec,
  source: ForkSource | undefined,
  signal: AbortSignal,
): Promise<Instance> => {
  const { daemon, sockets, disks, gpuDevices, internet, deployment } = parts;
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
    const own = {
      isForked: source !== undefined,
      takesNetwork,
      uid,
      sockets: folder,
      volume,
      networkName,
      gpuRequest,
      dockerLabels: labels,
    };
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
    if (source !== undefined) await fork(source, spec, wanted, found, signal);
    return inspectedInstance(found, parts.addressOf);
  } catch (cause) {
    // The caller's signal may have caused the failure, so the clean-up has a deadline of its own.
    await destroy(parts, spec.id, AbortSignal.timeout(60_000)).catch(() => undefined);
    throw cause;
  }
};

/** Starts the box server of a container that waits for it. Throws NotForked when that cannot be done. */
const fork = async (
  { parents, imageId }: ForkSource,
  { token }: InstanceSpec,
  { uid, largestFileMb }: ContainerSpec,
  { Id, Image, State, Config }: ContainerInspectInfo,
  signal: AbortSignal,
): Promise<void> => {
  // The name may have been given to another image meanwhile.
  if (Image !== imageId) throw new NotForked();
  const request = { init: State.Pid, container: Id, uid, limits: resourceLimitsOf(largestFileMb) };
  const given = Config.Env.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
  const environment = { ...Object.fromEntries(given), HOSTNAME: Config.Hostname, CODEBOX_TOKEN: token };
  const serve = await parents.fork(request, environment, signal);
  if (serve === undefined) throw new NotForked();
  serve();
};

/** Throws InstanceFailed for a 404 of the creation, at which the daemon looks only for the image. */
const throwLackOfImage = (error: unknown): never => {
  const refusal = error instanceof Error ? error.cause : undefined;
  if (httpStatus(refusal) !== 404) throw error;
  throw new InstanceFailed({ code: 'image', detail: String(refusal) }, error);
};

export const destroy = async (parts: Parts, id: string, signal: AbortSignal): Promise<void> => {
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

export const list = async (parts: Parts, signal: AbortSignal): Promise<Instance[]> => {
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
export const leftovers = async ({ sockets, disks, gpuDevices }: Parts): Promise<string[]> => [
  ...new Set((await Promise.all([sockets.list(), disks.list(), gpuDevices.list()])).flat()),
];

export const incomplete = (id: string): Instance => ({
  id,
  state: 'ended',
  why: { code: 'exit', detail: 'it has no container' },
});
