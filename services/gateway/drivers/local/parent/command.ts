import type { PackageSources } from '../../package-sources.ts';
import { commonEnvironment, programs, setEnvironment } from '../sandbox.ts';

export interface ParentFiles {
  venv: string;
  server: string;
  etc: string;
  filter: string;
  packages: PackageSources;
}

/** Entering a box takes these: its namespaces, the description of its first process, its user and its control groups. */
const capabilities = [
  'SYS_ADMIN',
  'SYS_CHROOT',
  'SYS_PTRACE',
  'SETUID',
  'SETGID',
  'SETPCAP',
  'DAC_OVERRIDE',
  'SYS_RESOURCE',
];

/**
 * Returns the command that runs the parent in a sandbox with the same files at the same paths as in boxes, so that its memory names none of
 * this host. It sees the host's processes and control groups, but no network and no other file than those of `folder`.
 */
export const parentCommand = (files: ParentFiles, folder: string): string[] => [
  'bwrap',
  ...['--unshare-ipc', '--unshare-net', '--unshare-uts', '--hostname', 'box'],
  ...['--cap-drop', 'ALL', ...capabilities.flatMap((name) => ['--cap-add', `CAP_${name}`])],
  ...programs(files),
  ...['--dev', '/dev', '--tmpfs', '/tmp', '--tmpfs', '/mnt', '--bind', '/sys/fs/cgroup', '/sys/fs/cgroup'],
  ...['--ro-bind-try', '/sys/kernel/mm/transparent_hugepage', '/sys/kernel/mm/transparent_hugepage'],
  ...['--bind', folder, '/run/parent', '--remount-ro', '/'],
  // No packages of a home are loaded; a forked process gets the whole environment of its box.
  ...setEnvironment({ ...commonEnvironment(files.packages, 'none'), HOME: '/nonexistent', CODEBOX_PARENT: '1' }),
  ...['--chdir', '/', '--', '/opt/codebox/bin/python', '-P', '-m', 'codebox_server'],
];
