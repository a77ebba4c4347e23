import type { ContainerCreateOptions, DeviceRequest } from 'dockerode';
import { volumesFolder } from '#contract';
import type { InstanceSpec } from '../../driver.ts';
import type { SocketFolder } from '../../host/socket-folder.ts';
import { type PackageSources, packageEnvironment, wheelsTarget } from '../../package-sources.ts';
import { resourceLimitsOf } from '../../resource-limits.ts';
import type { Volume } from '../disk.ts';
import type { SystemFiles } from './system-files.ts';

const MiB = 1024 * 1024;

/** The paths that Docker masks by default, because this list replaces them, and others that reveal details of the host. */
const maskedPaths = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/cmdline',
  '/proc/config.gz',
  '/proc/interrupts',
  '/proc/kallsyms',
  '/proc/kcore',
  '/proc/key-users',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/version',
  '/sys/block',
  '/sys/devices/virtual/powercap',
  '/sys/firmware',
];

/** A volume of a tenant whose loop device is attached, with a name for the daemon: only a volume with a name can be read-only. */
export interface MountedVolume extends Volume {
  /** The name of its folder in `/volumes`. */
  folder: string;
  readOnly: boolean;
}

export interface ContainerSpec extends Omit<InstanceSpec, 'volumes'> {
  uid: number;
  runtime: string;
  /** Whether that runtime is gVisor. */
  gvisor: boolean;
  /** Whether its box server is forked into it. */
  isForked: boolean;
  /** The text of the profile: the Docker API accepts no path here. */
  seccomp: string;
  sockets: SocketFolder;
  /** The volume for `/mnt`, or undefined for a tmpfs. */
  volume: Volume | undefined;
  volumes: readonly MountedVolume[];
  /** The largest file that it may write, in MiB: one in a volume may be larger than the disk. */
  largestFileMb: number;
  /** The name of the Docker network; `none` for no network. */
  networkName: string;
  /** Whether it may be connected to a network while it runs. */
  takesNetwork: boolean;
  /** The name servers of boxes with a network. */
  dns: readonly string[];
  dockerLabels: Record<string, string>;
  packages: PackageSources;
  systemFiles: SystemFiles;
  privateCgroups: boolean;
  /** The request for its GPUs; undefined for none. */
  gpuRequest?: DeviceRequest | undefined;
}

/** Returns the options of the Docker API for the container of an instance: no capabilities, a read-only system, every resource bounded. */
export const containerOptions = (spec: ContainerSpec, name: string): ContainerCreateOptions => ({
  name,
  Image: spec.image,
  ...(spec.isForked && { Entrypoint: ['tini', '-g', '--', '/bin/sh', '-c', holder] }),
  User: `${spec.uid}:${spec.uid}`,
  Hostname: 'box',
  Env: Object.entries(environment(spec)).map(([name, value]) => `${name}=${value}`),
  Labels: spec.dockerLabels,
  // The daemon can connect a box later only if it created the network namespace, which needs an extra process at the start.
  NetworkDisabled: spec.network === 'none' && !spec.takesNetwork,
  HostConfig: {
    ...isolation(spec),
    ...resources(spec),
    ...mounts(spec),
    NetworkMode: spec.networkName,
    Dns: spec.network === 'none' && !spec.takesNetwork ? [] : [...spec.dns],
    // Small logs on disk, to explain a failed start.
    LogConfig: { Type: 'json-file', Config: { 'max-size': '256k', 'max-file': '1' } },
    RestartPolicy: { Name: 'no' },
    AutoRemove: false,
  },
});

/**
 * Waits for the end of a box server that is forked into the container, which writes its exit code to this pipe. Its name says which process
 * waits (`codebox_server/parent/containers.py`).
 */
const holder = `
mkfifo -m 0600 /tmp/.codebox-end-$$ || exit
read -r code < /tmp/.codebox-end-$$
exit "\${code:-137}"
`;

const environment = ({ id, token, packages, network, isForked }: ContainerSpec): Record<string, string> => ({
  CODEBOX_INSTANCE: id,
  // A forked server receives it otherwise.
  ...(!isForked && { CODEBOX_TOKEN: token }),
  CODEBOX_ROOT: '/mnt',
  USER: 'user',
  LOGNAME: 'user',
  ...packageEnvironment(packages, network),
});

const isolation = (spec: ContainerSpec): ContainerCreateOptions['HostConfig'] => ({
  Runtime: spec.runtime,
  Privileged: false,
  CapDrop: ['ALL'],
  SecurityOpt: ['no-new-privileges:true', `seccomp=${spec.seccomp}`],
  ReadonlyRootfs: true,
  IpcMode: 'private',
  // Docker's type lacks the field, the API has it since 1.41.
  ...(spec.privateCgroups ? { CgroupnsMode: 'private' } : {}),
  MaskedPaths: maskedPaths,
});

/**
 * gVisor runs each task of a box on threads of the host, needs some for itself, and dies when it gets none. A task that ends keeps its
 * threads for a while: a fork bomb had 19 host threads for each task of its limit. So the host's limit is much higher than that of the box,
 * which is enforced for its user inside gVisor, but low enough that a few boxes cannot exhaust the host.
 */
const hostTasks = ({ limits: { pids }, gvisor }: ContainerSpec): number =>
  gvisor ? Math.max(pids * 2 + 128, Math.min(pids * 24 + 1024, 4096)) : pids;

const resources = (spec: ContainerSpec): ContainerCreateOptions['HostConfig'] => ({
  Memory: spec.limits.memoryMb * MiB,
  MemorySwap: spec.limits.memoryMb * MiB,
  NanoCpus: Math.round(spec.limits.cpus * 1e9),
  PidsLimit: hostTasks(spec),
  ...(spec.gpuRequest && { DeviceRequests: [spec.gpuRequest] }),
  OomScoreAdj: 500,
  Ulimits: [
    ...Object.entries(resourceLimitsOf(spec.largestFileMb)).map(([name, limit]) => ({
      Name: name.toLowerCase(),
      Soft: limit,
      Hard: limit,
    })),
    // Inside gVisor this counts only the box's own tasks. Elsewhere it would count all tasks of the user id; control groups limit them.
    ...(spec.gvisor ? [{ Name: 'nproc', Soft: spec.limits.pids, Hard: spec.limits.pids }] : []),
  ],
});

const mounts = ({
  limits,
  uid,
  volume,
  volumes,
  sockets,
  packages,
  network,
  systemFiles,
  dockerLabels,
}: ContainerSpec): ContainerCreateOptions['HostConfig'] => {
  const scratchMb = Math.ceil(limits.memoryMb / 4);
  const owned = `uid=${uid},gid=${uid},mode=0755`;
  return {
    Tmpfs: {
      '/tmp': `rw,exec,nosuid,nodev,size=${scratchMb}m,nr_inodes=50k,mode=1777`,
      ...(volume === undefined
        ? { '/mnt': `rw,exec,nosuid,nodev,size=${limits.diskMb}m,nr_inodes=${limits.diskMb * 64},${owned}` }
        : {}),
    },
    ShmSize: scratchMb * MiB,
    Mounts: [
      ...(volume === undefined ? [] : [volumeMount(volume, { target: '/mnt', labels: dockerLabels })]),
      { Type: 'bind', Source: sockets.run, Target: '/run/codebox' },
      { Type: 'bind', Source: sockets.passwd, Target: '/etc/passwd', ReadOnly: true },
      { Type: 'bind', Source: sockets.group, Target: '/etc/group', ReadOnly: true },
      ...readOnly(packages.wheelsDir, wheelsTarget),
      ...readOnly(systemFiles.certificates, bundleTarget),
      ...(network === 'none' ? readOnly(sockets.hosts, '/etc/hosts') : []),
      ...volumes.map(({ folder, readOnly, ...volume }) =>
        volumeMount(volume, { target: `${volumesFolder}/${folder}`, readOnly, labels: dockerLabels }),
      ),
    ],
  };
};

/** The daemon creates such a volume with the container and mounts it at the start, which saves a request. */
const volumeMount = (
  { name, device }: Volume,
  { target, readOnly = false, labels }: { target: string; readOnly?: boolean; labels: Record<string, string> },
) => ({
  Type: 'volume' as const,
  Source: name,
  Target: target,
  ReadOnly: readOnly,
  VolumeOptions: {
    // Otherwise the daemon would fill the volume from the image.
    NoCopy: true,
    Labels: labels,
    DriverConfig: { Name: 'local', Options: { type: 'ext4', device, o: 'nosuid,nodev' } },
  },
});

/** The path of the certificate bundle on Debian. */
const bundleTarget = '/etc/ssl/certs/ca-certificates.crt';

const readOnly = (source: string | undefined, target: string) =>
  source === undefined ? [] : [{ Type: 'bind' as const, Source: source, Target: target, ReadOnly: true }];
