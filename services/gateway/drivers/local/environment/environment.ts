import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { runHostCommand } from '../../host/host-command.ts';
import { followCommand } from './follow-command.ts';

/** The files that boxes of this driver are created from. */
export interface LocalEnvironment {
  /** The virtual environment, mounted at `/opt/codebox`. */
  venv: string;
  /** The compiled seccomp filter. */
  filter: string;
}

const imageFolder = fileURLToPath(new URL('../../../../../images/box', import.meta.url));
const serverFolder = `${imageFolder}/server/codebox_server`;
const compiler = `${serverFolder}/parent/filter.py`;
const installDeadlineMs = 30 * 60_000;

/** The folder of the environment. Like `node_modules` it belongs to the checkout, not to the data folder of a gateway. */
export const environmentFolder = fileURLToPath(new URL('../../../../../.codebox/sandbox', import.meta.url));

/** The paths of the environment, whether or not it is prepared. */
export const localEnvironment: LocalEnvironment = {
  venv: `${environmentFolder}/venv`,
  filter: `${environmentFolder}/seccomp.bpf`,
};

/** Whether `prepareLocalEnvironment` has run for this version of the requirements. */
export const isPrepared = async (python: string): Promise<boolean> => {
  const { venv, filter } = localEnvironment;
  if (!existsSync(filter)) return false;
  const stamp = await readFile(`${venv}/.stamp`, 'utf8').catch(() => '');
  return stamp === (await stampOf(python));
};

/** Looks for the modules without loading them, which takes four times as long. */
const fitCheck = `import sys
from importlib.util import find_spec
sys.exit(sys.version_info < (3, 11) or not all(map(find_spec, ("venv", "ensurepip"))))`;

/** Finds Python 3.11 or later below /usr, the only part of the host that a sandbox sees; undefined when there is none. */
export const findPython = async (): Promise<string | undefined> => {
  const names = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11'];
  for (const path of ['/usr/bin', '/usr/local/bin'].flatMap((folder) => names.map((name) => `${folder}/${name}`))) {
    if (!existsSync(path)) continue;
    const fits = await runHostCommand([path, '-I', '-S', '-c', fitCheck]).then(
      () => true,
      () => false,
    );
    if (fits) return path;
  }
  return undefined;
};

export interface PrepareOptions {
  python: string;
  /** A PEM file with all certificates to trust for downloads. */
  certificates: string;
  pipIndexUrl: string | undefined;
  /** Environment variables for pip, uv and proxies. */
  env: Record<string, string>;
  log: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Installs the environment of boxes unless it exists for these requirements, and compiles the seccomp profile and the box server.
 * The installation runs inside a sandbox, at the path where boxes see it. Throws an Error with the last lines of the installer
 * when it fails.
 */
export const prepareLocalEnvironment = async (options: PrepareOptions): Promise<void> => {
  const { python, log, signal } = options;
  const { venv, filter } = localEnvironment;
  if (!(await isPrepared(python))) {
    log('Installing the Python and Node environment of boxes. The first installation takes some minutes.');
    const fresh = `${venv}.new`;
    await rm(fresh, { recursive: true, force: true });
    await mkdir(fresh, { recursive: true, mode: 0o755 });
    await followCommand(['bwrap', ...installOptions(options, fresh), '/bin/sh', '/opt/box/install.sh'], {
      log,
      signal: AbortSignal.any([signal, AbortSignal.timeout(installDeadlineMs)]),
    });
    await chmod(fresh, 0o755);
    await writeFile(`${fresh}/.stamp`, await stampOf(python));
    await rm(venv, { recursive: true, force: true });
    await rename(fresh, venv);
    log('The environment of boxes is ready.');
  }
  const programs = await runHostCommand(['bwrap', ...installOptions(options, venv), ...listPrograms], { signal });
  await writeFile(`${venv}/share/programs.json`, programs);
  const compile = [`${venv}/bin/python`, compiler, `${imageFolder}/seccomp.json`, `${filter}.new`];
  await runHostCommand(compile, { signal });
  await rename(`${filter}.new`, filter);
  // Boxes see their server read-only and each would compile it again, as they do where the checkout cannot be written. The
  // bytecode names the path inside a box: a box must not learn paths of the host.
  const bytecode = ['-m', 'compileall', '-q', '-d', '/opt/codebox-server/codebox_server', serverFolder];
  await runHostCommand([`${venv}/bin/python`, ...bytecode], { signal }).catch(() => {});
};

/** Prints the programs that boxes see on this host. */
const listPrograms = [
  ...['/usr/bin/env', 'PYTHONPATH=/opt/box/server', 'PATH=/opt/codebox/bin:/usr/local/bin:/usr/bin:/bin'],
  ...['/opt/codebox/bin/python', '-m', 'codebox_server.contents.programs'],
];

const installOptions = ({ python, certificates, pipIndexUrl, env }: PrepareOptions, target: string): string[] => {
  const bundle = '/tmp/certificates.pem';
  const variables = {
    ...env,
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: '/tmp',
    PYTHON: python,
    SSL_CERT_FILE: bundle,
    PIP_CERT: bundle,
    REQUESTS_CA_BUNDLE: bundle,
    ...(pipIndexUrl === undefined ? {} : { PIP_INDEX_URL: pipIndexUrl }),
  };
  return [
    ...['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--tmpfs', '/opt'],
    ...['--bind', target, '/opt/codebox', '--ro-bind', imageFolder, '/opt/box', '--ro-bind', certificates, bundle],
    ...['--unshare-pid', '--unshare-ipc', '--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
    '--',
  ];
};

const stampOf = async (python: string): Promise<string> => {
  const hash = createHash('sha256');
  for (const name of ['requirements.txt', 'install.sh', 'trim.sh', 'patch_packages.py'])
    hash.update(await readFile(`${imageFolder}/${name}`));
  hash.update(await runHostCommand([python, '-VV']));
  return hash.digest('hex');
};
