import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { followCommand } from '../services/gateway/drivers/local/environment/follow-command.ts';

/** A program that the set-up needs, and the Debian package that contains it. */
export interface SystemProgram {
  program: string;
  package: string;
}

/** The programs with which the Helm chart is tested. */
export const chartPrograms: readonly string[] = ['helm', 'kube-score', 'kubeconform'];

/** The administrator's programs, which are not in every user's PATH. */
const adminFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** Whether a program, or a file with an absolute path, exists. */
export const isInstalled = (program: string, path = process.env.PATH ?? ''): boolean =>
  program.startsWith('/')
    ? existsSync(program)
    : [...path.split(delimiter), ...adminFolders].some((folder) => existsSync(join(folder, program)));

/**
 * Installs missing programs if it runs as root on Debian or Ubuntu; elsewhere it installs nothing. Resolves with the programs that
 * are still missing.
 */
export const installMissing = async (
  wanted: readonly SystemProgram[],
  { log, signal }: { log: (line: string) => void; signal: AbortSignal },
): Promise<SystemProgram[]> => {
  const missing = wanted.filter(({ program }) => !isInstalled(program));
  if (missing.length === 0 || !canInstall()) return missing;
  const packages = [...new Set(missing.map((entry) => entry.package))];
  log(`Installing system packages: ${packages.join(' ')}`);
  const env = { ...environment(), DEBIAN_FRONTEND: 'noninteractive' };
  const apt = ['apt-get', '-q', '-o', 'DPkg::Lock::Timeout=120'];
  await followCommand([...apt, 'update'], { log: () => {}, signal, env }).catch((error: Error) => log(error.message));
  await followCommand([...apt, 'install', '-y', '--no-install-recommends', ...packages], { log, signal, env });
  return missing.filter(({ program }) => !isInstalled(program));
};

/** The command with which a user installs the missing programs. */
export const installCommand = (missing: readonly SystemProgram[]): string =>
  `sudo apt-get install -y ${[...new Set(missing.map((entry) => entry.package))].join(' ')}`;

const canInstall = (): boolean =>
  process.getuid?.() === 0 && isInstalled('apt-get') && existsSync('/etc/debian_version');

const environment = (): Record<string, string> =>
  Object.fromEntries(Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined));
