import type { ContainerCreateOptions } from 'dockerode';
import { type PackageSources, packageEnvironment } from '../../package-sources.ts';

const MiB = 1024 * 1024;

/** Entering a box takes these: its namespaces, the description of its first process, its user and its control groups. */
const capabilities = ['SYS_ADMIN', 'SYS_CHROOT', 'SYS_PTRACE', 'SETUID', 'SETGID', 'SETPCAP', 'DAC_OVERRIDE'];

/** Compiles the profile of boxes, which each fork loads, with the library of the image. */
const command = `
python -P -m codebox_server.parent.filter /run/parent/seccomp.json /run/parent/seccomp.bpf
exec python -P -m codebox_server
`;

export interface ParentContainerSpec {
  deployment: string;
  /** The id of the image. */
  image: string;
  /** The folder of the host for its sockets, which contains the seccomp profile of boxes as `seccomp.json`. */
  folder: string;
  /** The text of that profile. */
  seccomp: string;
  packages: PackageSources;
}

/**
 * Returns the options of the Docker API for the container of a parent. It is in the pid namespace of the host, where the first processes of
 * boxes are, and writes to control groups; it has no network and no other files of the host.
 */
export const parentContainerOptions = (spec: ParentContainerSpec): ContainerCreateOptions => ({
  Image: spec.image,
  Entrypoint: ['/bin/sh', '-ec', command],
  Cmd: [],
  User: '0:0',
  WorkingDir: '/',
  Hostname: 'box',
  Env: Object.entries(environment(spec)).map(([name, value]) => `${name}=${value}`),
  Labels: { 'codebox.deployment': spec.deployment, 'codebox.parent': spec.image },
  AttachStdout: true,
  AttachStderr: true,
  NetworkDisabled: true,
  HostConfig: {
    AutoRemove: true,
    PidMode: 'host',
    // Docker's type lacks the field, the API has it since 1.41.
    ...{ CgroupnsMode: 'host' },
    IpcMode: 'private',
    NetworkMode: 'none',
    CapDrop: ['ALL'],
    CapAdd: capabilities,
    SecurityOpt: ['no-new-privileges:true', `seccomp=${withSetns(spec.seccomp)}`],
    ReadonlyRootfs: true,
    Memory: 2048 * MiB,
    MemorySwap: 2048 * MiB,
    // Forks count until they are in their box.
    PidsLimit: 1024,
    LogConfig: { Type: 'none', Config: {} },
    Tmpfs: { '/tmp': 'rw,nosuid,nodev,size=64m', '/mnt': 'rw,nosuid,nodev,size=64m' },
    Mounts: [
      { Type: 'bind', Source: spec.folder, Target: '/run/parent' },
      { Type: 'bind', Source: '/sys/fs/cgroup', Target: '/sys/fs/cgroup' },
    ],
  },
});

/** No packages of a home are loaded; a forked process gets the whole environment of its box. */
const environment = ({ packages }: ParentContainerSpec): Record<string, string> => ({
  ...packageEnvironment(packages, 'none'),
  CODEBOX_PARENT: '1',
  CODEBOX_ROOT: '/mnt',
  HOME: '/nonexistent',
  USER: 'user',
  LOGNAME: 'user',
});

/** Adds the one system call to the profile that entering a box takes and boxes do not have. */
const withSetns = (profile: string): string => {
  const { syscalls, ...rest }: { syscalls: unknown[] } = JSON.parse(profile);
  return JSON.stringify({ ...rest, syscalls: [...syscalls, { names: ['setns'], action: 'SCMP_ACT_ALLOW' }] });
};
