import { createDaemon } from '../services/gateway/drivers/docker/daemon/daemon.ts';
import { baseImage } from './base-image.ts';
import { isDockerThere, prepareDockerImage } from './docker-image.ts';
import { prepareLocalSandbox } from './local-sandbox.ts';
import { isInstalled, type SystemProgram } from './system-packages.ts';
import { startTestDaemon, type TestDaemon } from './test-daemon.ts';

/** The programs that the tests need, and the Debian packages that contain them. */
export const testPrograms: readonly SystemProgram[] = [
  { program: 'dockerd', package: 'docker.io' },
  { program: 'runsc', package: 'runsc' },
  { program: 'bwrap', package: 'bubblewrap' },
  { program: 'debootstrap', package: 'debootstrap' },
  { program: 'mkfs.ext4', package: 'e2fsprogs' },
  { program: 'losetup', package: 'mount' },
  { program: 'setpriv', package: 'util-linux' },
  { program: 'iptables', package: 'iptables' },
  { program: 'pasta', package: 'passt' },
  { program: 'nft', package: 'nftables' },
  { program: 'ip', package: 'iproute2' },
  { program: 'git', package: 'git' },
  { program: 'curl', package: 'curl' },
  { program: 'jq', package: 'jq' },
  { program: 'chromium-headless-shell', package: 'chromium-headless-shell' },
  { program: '/usr/share/doc/python3-venv', package: 'python3-venv' },
  { program: '/etc/ssl/certs/ca-certificates.crt', package: 'ca-certificates' },
];

export const allDrivers = ['docker', 'local'] as const;
type DriverName = (typeof allDrivers)[number];

/** The prepared drivers: variables for the tests, and the groups of tests that cannot run. Disposing it stops the daemon. */
export interface TestDrivers extends AsyncDisposable {
  env: Record<string, string>;
  notRun: string[];
}

interface Setup {
  /** A folder that is kept between runs. */
  folder: string;
  log: (line: string) => void;
  signal: AbortSignal;
}

/** Prepares the wanted drivers that this machine can run. Never throws: `notRun` has the others, with the reason. */
export const prepareDrivers = async (wanted: readonly DriverName[], setup: Setup): Promise<TestDrivers> => {
  const env: Record<string, string> = { TESTCONTAINERS_RYUK_DISABLED: 'true' };
  const drivers: string[] = [];
  const notRun: string[] = [];
  const attempt = async (driver: DriverName, what: string, prepare: () => Promise<void>): Promise<void> => {
    if (!wanted.includes(driver)) return;
    try {
      await prepare();
      drivers.push(driver);
    } catch (error) {
      notRun.push(`${what}: ${error instanceof Error ? error.message : error}`);
    }
  };
  let daemon: TestDaemon | undefined;
  await attempt('docker', 'everything with Docker', async () => {
    if (!(await isDockerThere())) daemon = await ownDaemon(setup);
    if (daemon !== undefined) env.DOCKER_HOST = daemon.host;
    Object.assign(env, await prepareDocker(setup, daemon?.host));
    if (!env.CODEBOX_TEST_RUNTIMES?.includes('runsc')) notRun.push('Docker with runsc: the daemon has no such runtime');
  });
  await attempt('local', 'everything with local sandboxes', async () => {
    await prepareLocalSandbox(process.env, setup);
  });
  env.CODEBOX_TEST_DRIVERS = drivers.join(',');
  return { env, notRun, [Symbol.asyncDispose]: async () => daemon?.stop() };
};

const ownDaemon = async ({ folder, log }: Setup): Promise<TestDaemon> => {
  if (process.getuid?.() !== 0) throw new Error('no daemon responds, and starting one needs root');
  if (!isInstalled('dockerd')) throw new Error('no daemon responds, and docker.io is not installed');
  log('No Docker daemon responds, so the tests start one of their own.');
  return startTestDaemon(`${folder}/daemon`);
};

const prepareDocker = async ({ log, signal }: Setup, host?: string): Promise<Record<string, string>> => {
  const where = host === undefined ? {} : { host };
  await baseImage({ ...where, log, signal });
  const image = await prepareDockerImage(process.env, { ...where, log, signal });
  const info = await createDaemon(host).call(signal, (docker) => docker.info());
  const known = Object.keys((info as { Runtimes?: Record<string, unknown> }).Runtimes ?? {});
  const runtimes = ['runc', 'runsc'].filter((name) => known.includes(name));
  return { CODEBOX_BOX_IMAGE: image, CODEBOX_TEST_RUNTIMES: runtimes.join(',') };
};
