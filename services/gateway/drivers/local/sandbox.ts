import { existsSync } from 'node:fs';
import { volumesFolder } from '#contract';
import type { Limits, NetworkPolicy } from '../driver.ts';
import { type PackageSources, packageEnvironment, wheelsTarget } from '../package-sources.ts';
import { resourceLimitsOf } from '../resource-limits.ts';

const MiB = 1024 * 1024;

/** Files of /proc that reveal details of the host; those that this kernel has are hidden. */
const coveredFiles = [
  'cmdline',
  'config.gz',
  'interrupts',
  'kallsyms',
  'kcore',
  'key-users',
  'keys',
  'sched_debug',
  'timer_list',
  'version',
];

/** The environment of the box server, equal to that of the Docker image. */
const environment = {
  PATH: '/mnt/home/.local/bin:/opt/codebox/bin:/usr/local/bin:/usr/bin:/bin',
  HOME: '/mnt/home',
  LANG: 'C.UTF-8',
  TZ: 'UTC',
  USER: 'user',
  LOGNAME: 'user',
  SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt',
  REQUESTS_CA_BUNDLE: '/etc/ssl/certs/ca-certificates.crt',
  PIP_CERT: '/etc/ssl/certs/ca-certificates.crt',
  NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  npm_config_prefix: '/mnt/home/.local',
  npm_config_update_notifier: 'false',
  CODEBOX_NODE: '/opt/codebox/bin/node',
  CODEBOX_ROOT: '/mnt',
};

export interface SandboxSpec {
  id: string;
  token: string;
  limits: Limits;
  network: NetworkPolicy;
  /** The box's own user id on the host when this process is root; undefined when boxes run as the user of this process. */
  uid: number | undefined;
  /** Folders and files of the host that are mounted in the box. */
  venv: string;
  server: string;
  start: string;
  etc: string;
  passwd: string;
  group: string;
  hosts: string;
  run: string;
  /** The folder where the box's disk is mounted, or undefined for a tmpfs. */
  disk: string | undefined;
  /** Folders of the box's control groups that it may read, with their mount points. */
  cgroups: readonly { source: string; target: string }[];
  packages: PackageSources;
}

/**
 * Returns the options of bubblewrap for one box, without the command. As root there is no user namespace: the box gets its own user and no
 * capabilities. An ordinary user needs a user namespace for the sandbox, in which the box cannot create others.
 * `supportsNoNestedUsers`: this bubblewrap supports `--disable-userns`.
 */
export const sandboxOptions = (spec: SandboxSpec, supportsNoNestedUsers: boolean): string[] => [
  ...namespaces(spec.uid, supportsNoNestedUsers),
  ...system(spec),
  ...volumes(spec),
  '--remount-ro',
  '/',
  ...setEnvironment(boxEnvironment(spec)),
  '--chdir',
  '/mnt',
];

/** Returns the environment of a box server. */
export const boxEnvironment = ({
  id,
  token,
  packages,
  network,
}: Pick<SandboxSpec, 'id' | 'token' | 'packages' | 'network'>): Record<string, string> => ({
  ...commonEnvironment(packages, network),
  CODEBOX_INSTANCE: id,
  CODEBOX_TOKEN: token,
});

/** Returns the part of the environment that all boxes with such a network have. */
export const commonEnvironment = (packages: PackageSources, network: NetworkPolicy): Record<string, string> => ({
  ...environment,
  ...packageEnvironment(packages, network),
});

/** Returns the options of bubblewrap for an environment of just these variables. */
export const setEnvironment = (variables: Record<string, string>): string[] => [
  '--clearenv',
  ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
];

/** Returns the command inside the sandbox: as root, setpriv permanently drops the capabilities that bubblewrap needed. */
export const sandboxCommand = (uid: number | undefined): string[] => [
  ...(uid === undefined
    ? []
    : [
        '/usr/bin/setpriv',
        `--reuid=${uid}`,
        `--regid=${uid}`,
        '--clear-groups',
        '--bounding-set=-all',
        '--inh-caps=-all',
      ]),
  '/bin/sh',
  '/opt/codebox-start',
];

/**
 * Waits in the sandbox for a box server that is forked into it, and then for its end: descriptor 7 leads to the gateway, and the server
 * writes its exit code to the pipe 6. Otherwise this becomes the command in its arguments, which starts a server.
 */
const holder = `
echo up >&7
read -r how <&7 || exit 1
exec 7>&-
[ "$how" = forked ] || exec "$@" 6<&-
unset CODEBOX_TOKEN
exec /usr/bin/setpriv --bounding-set=-all --inh-caps=-all /bin/sh -c \
  'exec 6< /proc/self/fd/6; read -r code <&6; exit "\${code:-137}"'
`;

/** Returns the command for a sandbox that may get a forked box server. */
export const holderCommand = (uid: number): string[] => ['/bin/sh', '-c', holder, 'sh', ...sandboxCommand(uid)];

/** Returns the command that sets limits which control groups do not cover: file size, no core files, locked memory. */
export const resourceLimits = (limits: Limits, largestFileMb: number, hasCgroups: boolean): string[] => [
  'prlimit',
  ...Object.entries(resourceLimitsOf(largestFileMb)).map(([name, limit]) => `--${name.toLowerCase()}=${limit}`),
  ...(hasCgroups ? [] : [`--data=${limits.memoryMb * MiB}`]),
];

const namespaces = (uid: number | undefined, supportsNoNestedUsers: boolean): string[] => [
  '--unshare-ipc',
  '--unshare-pid',
  '--unshare-net',
  '--unshare-uts',
  '--unshare-cgroup-try',
  '--hostname',
  'box',
  '--new-session',
  '--cap-drop',
  'ALL',
  ...(uid === undefined
    ? ['--unshare-user', ...(supportsNoNestedUsers ? ['--disable-userns'] : []), '--uid', '1000', '--gid', '1000']
    : ['CAP_SETUID', 'CAP_SETGID', 'CAP_SETPCAP'].flatMap((name) => ['--cap-add', name])),
];

/** Created one by one, because bubblewrap makes the parents of a mount point unreadable for other users. */
const parents = [
  '/home',
  '/opt',
  '/run',
  '/var',
  '/var/tmp',
  '/sys',
  '/sys/fs',
  '/sys/fs/cgroup',
  '/sys/devices',
  '/sys/devices/system',
];

const system = (spec: SandboxSpec): string[] => [
  ...programs(spec),
  '--ro-bind',
  spec.passwd,
  '/etc/passwd',
  '--ro-bind',
  spec.group,
  '/etc/group',
  '--ro-bind',
  spec.hosts,
  '/etc/hosts',
  '--ro-bind',
  spec.start,
  '/opt/codebox-start',
  ...spec.cgroups.flatMap(({ source, target }) => ['--ro-bind', source, target]),
  '--dev',
  '/dev',
];

/** Returns the options for the files of the host that all boxes have at the same paths. */
export const programs = (spec: Pick<SandboxSpec, 'etc' | 'venv' | 'server' | 'packages'>): string[] => [
  ...parents.flatMap((path) => ['--dir', path]),
  ...usr(),
  ...['--symlink', '/mnt/data', '/home/user'],
  // Hides the packages of the host's Python: the box has its own.
  ...(existsSync('/usr/lib/python3/dist-packages') ? [...hidden('/usr/lib/python3/dist-packages')] : []),
  '--ro-bind',
  spec.etc,
  '/etc',
  // Hundreds of links from commands in /usr to others there.
  ...(existsSync('/etc/alternatives') ? ['--ro-bind', '/etc/alternatives', '/etc/alternatives'] : []),
  '--ro-bind',
  spec.venv,
  '/opt/codebox',
  '--ro-bind',
  spec.server,
  '/opt/codebox-server',
  ...(spec.packages.wheelsDir === undefined ? [] : ['--ro-bind', spec.packages.wheelsDir, wheelsTarget]),
  '--proc',
  '/proc',
  ...coveredFiles
    .map((name) => `/proc/${name}`)
    .filter((path) => existsSync(path))
    .flatMap((path) => ['--ro-bind', '/dev/null', path]),
  ...(existsSync('/sys/devices/system/cpu') ? ['--ro-bind', '/sys/devices/system/cpu', '/sys/devices/system/cpu'] : []),
];

/** Returns the options for the programs and libraries of the host. */
export const usr = (): string[] => [
  ...['--ro-bind', '/usr', '/usr'],
  ...['lib', 'lib32', 'lib64', 'bin', 'sbin']
    .filter((name) => existsSync(`/usr/${name}`))
    .flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`]),
];

const hidden = (path: string): string[] => ['--size', '4096', '--tmpfs', path, '--remount-ro', path];

/** Returns the options for volumes. Each tmpfs needs a size before it; the default is half of the host's memory. */
const volumes = ({ limits, run, disk, uid }: SandboxSpec): string[] => {
  const scratchBytes = String(Math.ceil(limits.memoryMb / 4) * MiB);
  const tmpfs = (path: string, bytes: string) => ['--perms', '1777', '--size', bytes, '--tmpfs', path];
  return [
    ...tmpfs('/dev/shm', scratchBytes),
    '--remount-ro',
    '/dev',
    ...tmpfs('/tmp', scratchBytes),
    ...(disk === undefined ? tmpfs('/mnt', String(limits.diskMb * MiB)) : ['--bind', disk, '/mnt']),
    '--bind',
    run,
    '/run/codebox',
    // The mount points of volumes, which root adds while the box runs. Without root there are none.
    ...(uid === undefined ? [] : ['--perms', '0755', '--size', '65536', '--tmpfs', volumesFolder]),
  ];
};
