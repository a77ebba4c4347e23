import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDaemon, type Daemon } from '../services/gateway/drivers/docker/daemon/daemon.ts';
import { hasImage } from '../services/gateway/drivers/docker/daemon/image.ts';
import { followCommand } from '../services/gateway/drivers/local/environment/follow-command.ts';
import { reasonOf } from './docker-image.ts';
import { installMissing } from './system-packages.ts';

const reference = { repo: 'debian', tag: 'bookworm-slim' };
const name = `${reference.repo}:${reference.tag}`;
const pullDeadlineMs = 120_000;
const security = 'deb http://deb.debian.org/debian-security bookworm-security main\n';

interface Step {
  host?: string;
  log: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Ensures that the daemon has Debian's image, the base of the box image. Pulls it, or builds it from Debian's packages (as root)
 * if no registry can be reached. Throws an Error that names both ways if neither works.
 */
export const baseImage = async ({ host, log, signal }: Step): Promise<void> => {
  const daemon = createDaemon(host);
  if (await hasImage(daemon, name, signal)) return;
  log(`Pulling ${name}.`);
  const reason = await pull(daemon, signal).then(() => undefined, reasonOf);
  if (reason === undefined) return;
  log(`Pulling ${name} failed: ${reason}. Building it from Debian's packages instead.`);
  const missing = await installMissing([{ program: 'debootstrap', package: 'debootstrap' }], { log, signal });
  if (missing.length > 0 || process.getuid?.() !== 0) {
    throw new Error(`${name} cannot be pulled, and building it needs root and debootstrap.`);
  }
  await bootstrap(daemon, { log, signal });
};

const pull = async (daemon: Daemon, signal: AbortSignal): Promise<void> => {
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(pullDeadlineMs)]);
  const messages = await daemon.call(
    deadline,
    (docker, abortSignal) => docker.pull(name, { abortSignal }),
    pullDeadlineMs,
  );
  await new Promise<void>((done, failed) => {
    deadline.addEventListener('abort', () => failed(new Error('the registry timed out')), { once: true });
    daemon.docker.modem.followProgress(messages, (error) => (error ? failed(error) : done()));
  });
};

const bootstrap = async (daemon: Daemon, { log, signal }: Step): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-base-'));
  try {
    const mirror = 'http://deb.debian.org/debian';
    await followCommand(['debootstrap', '--variant=minbase', 'bookworm', folder, mirror], { log, signal });
    await appendFile(join(folder, 'etc/apt/sources.list'), security);
    const excluded = ['./var/cache/apt/archives/*.deb', './var/lib/apt/lists/*'].map((path) => `--exclude=${path}`);
    const tar = spawn('tar', ['-C', folder, ...excluded, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'], signal });
    const closed = once(tar, 'close');
    const messages = await daemon.docker.importImage(tar.stdout, { ...reference });
    await new Promise<void>((done, failed) => {
      daemon.docker.modem.followProgress(messages, (error) => (error ? failed(error) : done()));
    });
    const [code] = await closed;
    if (code !== 0) throw new Error(`tar exited with code ${code} while it packed ${name}.`);
    log(`${name} is ready.`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};
