import { constants, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { CodeBoxError } from '#contract';
import { createGate } from '../../../waiting/gate.ts';
import { checkBinding } from '../binding.ts';
import { boxUser } from '../box-user.ts';
import { createCreations, idIsTaken } from '../creations.ts';
import type {
  Capabilities,
  Driver,
  Instance,
  InstanceSpec,
  InstanceUsage,
  NetworkPolicy,
  VolumeMount,
  Why,
} from '../driver.ts';
import { hostStarts, shareOfMachine } from '../host/capacity.ts';
import { canMountImages, detachLoops, formatCommand, makeSparseFile } from '../host/disk-image.ts';
import { requireFreeSpace } from '../host/free-space.ts';
import { publicNameServers } from '../host/name-servers.ts';
import { machineId, readPlace } from '../host/place.ts';
import { createSocketFolders, type SocketFolders, socketFolderKind, socketParent } from '../host/socket-folder.ts';
import { createVolumeImages, type VolumeImages } from '../host/volume-images.ts';
import { checkInstanceId } from '../instance-id.ts';
import { largestFileOf } from '../largest-file.ts';
import { type PackageSources, registryEndpoints } from '../package-sources.ts';
import { createParents, type ForkDeadlines, type Parents } from '../parent/parents.ts';
import { findParentsFolder } from '../parent/shared-parent.ts';
import { resourceLimitsOf } from '../resource-limits.ts';
import { specDigest } from '../spec-digest.ts';
import { findPython, isPrepared, type LocalEnvironment, localEnvironment } from './environment/environment.ts';
import { createGroups } from './groups/choose-groups.ts';
import type { Groups } from './groups/groups.ts';
import { createInstanceFolders, type InstanceFolders } from './instances/instance-folder.ts';
import { launch } from './instances/launcher.ts';
import { isAlive, type ProcessIdentity } from './instances/processes.ts';
import { connect, disconnect, endKeeper, internetObstacle } from './network/internet.ts';
import { findLocalParent } from './parent/start.ts';
import { readPosture } from './posture.ts';
import { environmentRevision } from './revision.ts';
import { boxEnvironment, holderCommand, resourceLimits, sandboxCommand, sandboxOptions } from './sandbox.ts';
import { makeSystemFiles } from './system-files.ts';
import { mountVolumes, tryVolumes, volumeUser } from './volumes/volumes.ts';

const [destroyTries, destroyPauseMs] = [10, 100];
const boxFolder = fileURLToPath(new URL('../../../../images/box', import.meta.url));

export interface LocalDriverOptions {
  /** The absolute path of the data folder; data of instances are in its folder `local`. */
  dataDir: string;
  /** Distinguishes this deployment's control groups from others: `[a-z0-9-]{1,32}`, the same after a restart. */
  deployment: string;
  /** The name of the site where its boxes run. */
  site?: string;
  /** PEM texts that boxes trust in addition to the host's certificates. */
  certificates?: readonly string[];
  packages?: PackageSources;
  /** The sum of the sizes of volumes, in MiB; by default half of the file system of the data folder. */
  volumesMb?: number | undefined;
  /** Whether box servers are forked from a parent, for which this process has to be root; true by default. */
  sharedParent?: boolean;
  /** The folder where gateways find the parents of this host: those of all deployments of root by default. */
  parentsFolder?: string;
  /** Called after each fork, with the reason of one that failed: that box starts a server of its own. */
  onFork?: (failure?: unknown) => void;
  forkDeadlines?: ForkDeadlines;
}

/**
 * Runs boxes as sandboxed processes of this host, with bubblewrap. As root, each box has its own user, disk and control groups; for an
 * ordinary user, what is missing is listed in `weaknesses`. Throws `unavailable` when the sandbox does not work here or its environment is
 * not prepared: boxes never run without a sandbox.
 */
export const createLocalDriver = async (options: LocalDriverOptions): Promise<Driver> => {
  const { dataDir, deployment, site = 'local', certificates = [], packages = {}, sharedParent = true } = options;
  const root = process.getuid?.() === 0;
  const python = await findPython();
  if (python === undefined || !(await isPrepared(python))) {
    throw new CodeBoxError('unavailable', 'The environment of local boxes is not prepared: run npm start.');
  }
  const posture = await readPosture({ root, deployment, filter: localEnvironment.filter });
  const parent = await socketParent(dataDir);
  // This process starts the sandboxes, so they see its mounts.
  const socketKind = await socketFolderKind(parent, async () => true);
  const folders = await createInstanceFolders(`${dataDir}/local/instances`);
  const hasImages = root && (await canMountImages(`${dataDir}/local/instances`));
  const obstacle = await internetObstacle();
  const networks: NetworkPolicy[] = obstacle === undefined ? ['none', 'internet'] : ['none'];
  const volumesTrial = await tryVolumes(hasImages, `${dataDir}/local/volumes-trial`, python);
  const nameServers = obstacle === undefined ? publicNameServers : [];
  const etc = await makeSystemFiles(`${dataDir}/local/etc`, certificates, nameServers);
  const files = { ...localEnvironment, server: `${boxFolder}/server`, etc, packages };
  const isForked = root && posture.cgroups !== undefined && sharedParent;
  const revision = await environmentRevision(boxFolder, localEnvironment, packages, etc, isForked);
  const findParent = async (wanted: AbortSignal) => {
    const folder = options.parentsFolder ?? (await findParentsFolder(parent, true));
    return await findLocalParent(files, revision, folder, wanted);
  };
  const parts: Parts = {
    dataDir,
    site,
    place: await readPlace(dataDir, await machineId()),
    root,
    folders,
    sockets: await createSocketFolders(parent, socketKind),
    groups: createGroups(posture.cgroups, folders),
    hasImages,
    volumes:
      volumesTrial.obstacle === undefined
        ? await createVolumeImages(`${dataDir}/local/volumes`, { limitMb: options.volumesMb })
        : undefined,
    python,
    etc,
    environment: localEnvironment,
    packages,
    supportsNoNestedUsers: posture.supportsNoNestedUsers,
    hasCgroups: posture.cgroups !== undefined,
    parents: isForked ? createParents(findParent, options.onFork, options.forkDeadlines) : undefined,
    watchers: new Set(),
    revision,
  };
  const capabilities: Capabilities = {
    images: false,
    networks,
    networkObstacles: obstacle === undefined ? {} : { internet: `${obstacle} (docs/drivers.md#local)` },
    disk: { isFullAnError: true },
    ...(volumesTrial.obstacle !== undefined && { volumesObstacle: volumesTrial.obstacle }),
    limits: { ...posture.limits, diskMb: 'instance' },
    freeze: true,
    ...hostStarts(isForked),
    bind: {
      limits: posture.cgroups === undefined ? [] : ['cpus', 'memoryMb', 'pids'],
      networks,
      volumes: volumesTrial.obstacle === undefined,
    },
    weaknesses: [
      ...posture.weaknesses,
      ...(hasImages ? [] : ['Disks of boxes are held in memory: this process cannot use loop devices.']),
      ...(volumesTrial.doubt !== undefined
        ? [`Volumes could not be tried, so boxes may fail to get them: ${volumesTrial.doubt}`]
        : []),
      ...(socketKind === 'plain' ? ['A box can fill the file system that holds its socket.'] : []),
    ],
  };
  return assemble(parts, capabilities);
};

interface Parts {
  site: string;
  place: string;
  dataDir: string;
  root: boolean;
  folders: InstanceFolders;
  sockets: SocketFolders;
  groups: Groups;
  hasImages: boolean;
  /** Undefined where boxes cannot have volumes. */
  volumes: VolumeImages | undefined;
  python: string;
  etc: string;
  environment: LocalEnvironment;
  packages: PackageSources;
  supportsNoNestedUsers: boolean;
  hasCgroups: boolean;
  parents: Parents | undefined;
  /** Called when sandboxes that this process has started end. */
  watchers: Set<(id: string) => void>;
  revision: string;
}

const assemble = (parts: Parts, capabilities: Capabilities): Driver => {
  const { groups, volumes } = parts;
  const gate = createGate(8);
  const creations = createCreations();
  const need = async (id: string): Promise<void> => {
    checkInstanceId(id);
    if (!(await known(parts)).has(id)) throw new CodeBoxError('not_found', 'There is no such instance.');
  };
  const measure = async (id: string): Promise<InstanceUsage | undefined> =>
    (await groups.running(id)) ? await groups.usage(id) : undefined;
  return {
    kind: 'local',
    site: parts.site,
    place: parts.place,
    capabilities,
    async ping() {
      await requireFreeSpace(parts.dataDir);
      await parts.folders.list();
    },
    // A gateway in a container shares the memory of that container with its boxes.
    capacity: async () => shareOfMachine(Math.min(totalmem(), process.constrainedMemory() || totalmem())),
    revision: async () => parts.revision,
    async create(spec, signal) {
      checkInstanceId(spec.id);
      if (!capabilities.networks.includes(spec.network)) {
        throw new CodeBoxError('unavailable', `Boxes with network ${spec.network} are not available here.`);
      }
      if (spec.volumes?.length && !volumes) throw new CodeBoxError('unavailable', 'Volumes are not available here.');
      return await creations.create(spec, signal, async (wanted) => {
        const found = await parts.folders.record(spec.id);
        if (found === undefined) return await gate(wanted, () => create(parts, spec, wanted));
        if (found.spec !== specDigest(spec)) throw idIsTaken();
        return await describe(parts, spec.id);
      });
    },
    async destroy(id, signal) {
      checkInstanceId(id);
      await creations.cancel(id, signal);
      await gate(signal, () => destroyWithRetries(parts, id, signal));
    },
    async list() {
      return Promise.all([...(await known(parts))].map((id) => describe(parts, id)));
    },
    async inspect(id) {
      return (await known(parts)).has(id) ? await describe(parts, id) : undefined;
    },
    async bind(id, change, signal) {
      checkBinding(capabilities, change);
      await need(id);
      if (!(await groups.running(id))) throw new CodeBoxError('not_found', 'The instance has ended.');
      await groups.limit(id, change.limits ?? {});
      if (change.network !== undefined) await setNetwork(parts, id, change.network, signal);
      if (change.volumes !== undefined) await addVolumes(parts, id, change.volumes, signal);
    },
    async freeze(id) {
      await need(id);
      await groups.freeze(id);
    },
    async thaw(id) {
      await need(id);
      await groups.thaw(id);
    },
    async usage(ids) {
      const measured = ids.map(async (id) => [id, await measure(id)] as const);
      return new Map((await Promise.all(measured)).flatMap(([id, usage]) => (usage ? [[id, usage]] : [])));
    },
    ...(volumes && {
      volumes: {
        make: (volume, signal) => volumes.make(volume, volumeUser, signal),
        remove: volumes.remove,
        list: volumes.list,
      },
    }),
    // The ends of sandboxes that an earlier process started are not reported.
    watch(onEnd) {
      parts.watchers.add(onEnd);
      return { [Symbol.dispose]: () => void parts.watchers.delete(onEnd) };
    },
  };
};

const create = async (parts: Parts, spec: InstanceSpec, signal: AbortSignal): Promise<Instance> => {
  const { folders, sockets, groups, root } = parts;
  await requireFreeSpace(parts.dataDir);
  const uid = root ? boxUser(spec.id) : undefined;
  await folders.make(spec.id, { spec: specDigest(spec) });
  try {
    const folder = await sockets.make(spec.id, uid ?? 1000, signal);
    if (parts.hasImages) await makeSparseFile(`${folders.path(spec.id)}/disk.ext4`, spec.limits.diskMb);
    await groups.make(spec.id, spec.limits);
    const sandbox = {
      ...folder,
      id: spec.id,
      token: spec.token,
      limits: spec.limits,
      network: spec.network,
      uid,
      venv: parts.environment.venv,
      server: `${boxFolder}/server`,
      start: `${boxFolder}/start.sh`,
      etc: parts.etc,
      disk: parts.hasImages ? `${folders.path(spec.id)}/mnt` : undefined,
      cgroups: groups.visible(spec.id),
      packages: parts.packages,
    };
    const parents = spec.parent === false ? undefined : parts.parents;
    const joinFiles = groups.joinFiles(spec.id);
    const fork =
      parents === undefined || uid === undefined
        ? undefined
        : (init: ProcessIdentity) =>
            parents.fork(
              {
                init: init.pid,
                start: init.startTime,
                groups: joinFiles,
                uid,
                limits: resourceLimitsOf(largestFileOf(spec)),
              },
              boxEnvironment(sandbox),
              signal,
            );
    const launched = {
      id: spec.id,
      options: sandboxOptions(sandbox, parts.supportsNoNestedUsers),
      command: fork === undefined || uid === undefined ? sandboxCommand(uid) : holderCommand(uid),
      prefix: resourceLimits(spec.limits, largestFileOf(spec), parts.hasCgroups),
      filter: parts.environment.filter,
      format: formatCommand(uid ?? 0),
      joinFiles,
      logFile: folder.log,
      socket: `${folder.run}/box.sock`,
      ownMounts: root,
      ...(fork && { fork }),
      onEnd: () => {
        for (const onEnd of parts.watchers) onEnd(spec.id);
      },
    };
    await launch(folders, launched, signal);
    if (spec.network === 'internet') await setNetwork(parts, spec.id, spec.network, signal);
    if (spec.volumes !== undefined) await addVolumes(parts, spec.id, spec.volumes, signal);
    return await describe(parts, spec.id);
  } catch (cause) {
    // The caller's signal may have caused the failure, so the clean-up has a deadline of its own.
    await destroy(parts, spec.id, AbortSignal.timeout(60_000)).catch(() => undefined);
    throw cause;
  }
};

/** Returns the first process of a box. Throws `not_found` when it has ended. */
const livingInit = async ({ folders }: Parts, id: string): Promise<ProcessIdentity> => {
  const init = await folders.init(id);
  if (init === undefined || !(await isAlive(init))) throw new CodeBoxError('not_found', 'The instance has ended.');
  return init;
};

/** Gives a running box volumes. Throws `not_found` when it has ended, and InstanceFailed when one is missing. */
const addVolumes = async (
  parts: Parts,
  id: string,
  mounts: readonly VolumeMount[],
  signal: AbortSignal,
): Promise<void> => {
  const { volumes, python } = parts;
  if (!volumes) throw new CodeBoxError('unavailable', 'Volumes are not available here.');
  const user = { process: await livingInit(parts, id), uid: boxUser(id) };
  await mountVolumes(volumes, user, mounts, { python, signal });
};

/** Connects or disconnects a running box. Throws `not_found` when it has ended. */
const setNetwork = async (parts: Parts, id: string, network: NetworkPolicy, signal: AbortSignal): Promise<void> => {
  const { folders, groups, packages } = parts;
  const init = await livingInit(parts, id);
  const endpoints = registryEndpoints(packages);
  const box = { pid: init.pid, folder: folders.path(id), joinFiles: groups.joinFiles(id), endpoints };
  await (network === 'internet' ? connect(box, signal) : disconnect(box));
};

const destroy = async (
  { folders, sockets, groups, hasImages }: Parts,
  id: string,
  signal: AbortSignal,
): Promise<void> => {
  await endKeeper(folders.path(id));
  await groups.kill(id);
  await groups.remove(id);
  // The last process took the mount of the disk with it; this covers only a device that was never mounted.
  if (hasImages) await detachLoops(`${folders.path(id)}/disk.ext4`, signal);
  await sockets.remove(id, signal);
  await folders.remove(id);
};

/** Destroys an instance with retries: another gateway may be creating it, and the next attempt removes what that has added meanwhile. */
const destroyWithRetries = async (parts: Parts, id: string, signal: AbortSignal): Promise<void> => {
  for (let left = destroyTries; ; left--) {
    try {
      return await destroy(parts, id, signal);
    } catch (error) {
      if (left === 1 || signal.aborted) throw error;
      await sleep(destroyPauseMs);
    }
  }
};

/** Returns the ids of all instances, including those of which only remains exist. */
const known = async ({ folders, sockets, groups }: Parts): Promise<Set<string>> =>
  new Set([...(await groups.list()), ...(await sockets.list()), ...(await folders.list())]);

const describe = async (parts: Parts, id: string): Promise<Instance> => {
  const { folders, sockets, groups } = parts;
  const { address } = sockets.describe(id);
  if (await groups.running(id)) return { id, state: 'running', address };
  const isComplete = (await folders.record(id)) !== undefined;
  return { id, state: 'ended', address, why: isComplete ? await whyOf(parts, id) : incomplete };
};

const incomplete: Why = { code: 'exit', detail: 'its creation was not completed' };

/** bubblewrap reports the signal of its child as 128 + signal; without a report, bubblewrap itself was killed. */
const whyOf = async ({ folders, groups }: Parts, id: string): Promise<Why> => {
  const { exitCode = 128 + constants.signals.SIGKILL } = await folders.status(id);
  const signal = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  const oomKills = (await groups.usage(id))?.oomKills ?? 0;
  if (signal === 'SIGKILL' && oomKills > 0) return { code: 'oom', detail: 'killed by the memory limit' };
  return { code: 'exit', detail: signal ?? `exit code ${exitCode}` };
};
