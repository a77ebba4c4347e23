import { mkdir, writeFile } from 'node:fs/promises';
import { hostCertificates } from '../services/gateway/drivers/host/host-certificates.ts';
import {
  environmentFolder,
  findPython,
  prepareLocalEnvironment,
} from '../services/gateway/drivers/local/environment/environment.ts';
import { extraCertificates } from './certificates.ts';
import type { Environment } from './docker-image.ts';
import { installCommand, installMissing, type SystemProgram } from './system-packages.ts';

const programs: readonly SystemProgram[] = [
  { program: 'bwrap', package: 'bubblewrap' },
  { program: 'setpriv', package: 'util-linux' },
  { program: 'losetup', package: 'mount' },
  { program: 'mkfs.ext4', package: 'e2fsprogs' },
];

/** Without them boxes have no network `internet`. */
const networkPrograms: readonly SystemProgram[] = [
  { program: 'pasta', package: 'passt' },
  { program: 'nft', package: 'nftables' },
  { program: 'ip', package: 'iproute2' },
];

/** `findPython` checks for this package, because venv is a module rather than a program. */
const pythonPackages: readonly SystemProgram[] = [{ program: '/usr/share/doc/python3-venv', package: 'python3-venv' }];

/**
 * Ensures that boxes can run as sandboxed processes of this host. Throws an Error that names the command to run if something is
 * missing that it may not install itself.
 */
export const prepareLocalSandbox = async (
  env: Environment,
  { log, signal }: { log: (line: string) => void; signal: AbortSignal },
): Promise<void> => {
  const missing = await installMissing(programs, { log, signal });
  await installMissing(networkPrograms, { log, signal }).catch((error: Error) => log(error.message));
  if ((await findPython()) === undefined) await installMissing(pythonPackages, { log, signal });
  const python = await findPython();
  if (missing.length > 0 || python === undefined) {
    const needed = python === undefined ? [...missing, ...pythonPackages] : missing;
    throw new Error(
      `The local driver needs bubblewrap, and Python from 3.11 with venv below /usr. Run:\n  ${installCommand(needed)}`,
    );
  }
  await mkdir(environmentFolder, { recursive: true });
  const certificates = `${environmentFolder}/certificates.pem`;
  const trusted = [await hostCertificates(), ...(await extraCertificates(env.CODEBOX_CA_BUNDLE))];
  await writeFile(certificates, trusted.join('\n'));
  await prepareLocalEnvironment({
    python,
    certificates,
    pipIndexUrl: env.CODEBOX_PIP_INDEX_URL || undefined,
    env: passedOn(env),
    log,
    signal,
  });
};

/** The settings of the installers and the proxy, without those that name a file of the host, which does not exist in the sandbox. */
const passedOn = (env: Environment): Record<string, string> => {
  const wanted = /^(PIP_(?!CERT$|FIND_LINKS$|CONFIG_FILE$)\w+|UV_\w+|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)$/;
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => wanted.test(entry[0]) && entry[1] !== undefined),
  );
};
