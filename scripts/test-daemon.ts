import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, createReadStream, createWriteStream, existsSync, openSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createZstdDecompress } from 'node:zlib';
import { isDockerThere } from './docker-image.ts';

const startDeadlineMs = 60_000;
const stopDeadlineMs = 30_000;

/**
 * Returns gVisor with Docker's network namespace, sockets that the host can reach, and no need for KVM: a current one, where the tests have
 * one for their cluster, which takes a fraction of the CPU time of Debian's.
 */
const gvisor = async (folder: string) => {
  const packed = join(process.env.CODEBOX_TEST_CLUSTER ?? '', 'bin/runsc.zst');
  const current = join(folder, 'runsc');
  const isThere = process.env.CODEBOX_TEST_CLUSTER !== undefined && existsSync(packed);
  if (isThere && !existsSync(current)) {
    await pipeline(
      createReadStream(packed),
      createZstdDecompress(),
      createWriteStream(`${current}.new`, { mode: 0o755 }),
    );
    await rename(`${current}.new`, current);
  }
  return {
    path: isThere ? current : '/usr/bin/runsc',
    runtimeArgs: [`--platform=${isThere ? 'systrap' : 'ptrace'}`, '--network=host', '--host-uds=all'],
  };
};

/** A Docker daemon that belongs to the tests. */
export interface TestDaemon {
  host: string;
  pid: number;
  stop(): Promise<void>;
}

export interface TestDaemonOptions {
  /** Gives the daemon a network namespace of its own, so that it can run beside another daemon of this machine. */
  ownNetwork?: boolean;
  /** The folder of its images and containers, if they are to be kept elsewhere. */
  dataRoot?: string;
  /** Further settings for daemon.json. */
  settings?: Record<string, unknown>;
}

/**
 * Starts a Docker daemon for the tests, with its data in `folder` so that the next run finds its images. Needs root. Throws an
 * Error with its last log lines if it does not respond within a minute.
 */
export const startTestDaemon = async (
  folder: string,
  { ownNetwork = false, dataRoot = join(folder, 'docker'), settings = {} }: TestDaemonOptions = {},
): Promise<TestDaemon> => {
  const host = `unix://${folder}/docker.sock`;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  await writeFile(
    join(folder, 'daemon.json'),
    JSON.stringify({ runtimes: { runsc: await gvisor(folder) }, ...settings }),
  );
  const output = openSync(join(folder, 'docker.log'), 'w');
  const options = {
    'config-file': join(folder, 'daemon.json'),
    'data-root': dataRoot,
    'exec-root': join(folder, 'run'),
    pidfile: join(folder, 'docker.pid'),
    host,
  };
  const argv = ['dockerd', ...Object.entries(options).map(([name, value]) => `--${name}=${value}`)];
  const [command = '', ...args] = ownNetwork ? ['unshare', '--net', '--', ...argv] : argv;
  // The daemon has a process group of its own: Ctrl-C in the terminal reaches the tests first, which still need it to clean up.
  const child = spawn(command, args, { stdio: ['ignore', output, output], detached: true });
  closeSync(output);
  const daemon = { host, pid: child.pid ?? 0, stop: () => stop(child) };
  const ended = once(child, 'exit').catch(() => undefined);
  const until = performance.now() + startDeadlineMs;
  while (!(await isDockerThere(host))) {
    const hasEnded = await Promise.race([ended.then(() => true), sleep(200).then(() => false)]);
    if (hasEnded || performance.now() > until) {
      await daemon.stop();
      const output = (await readFile(join(folder, 'docker.log'), 'utf8')).trim().split('\n').slice(-5).join('\n');
      throw new Error(`The Docker daemon of the tests did not start:\n${output}`);
    }
  }
  return daemon;
};

const stop = async (child: ChildProcess): Promise<void> => {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  if (await Promise.race([ended.then(() => true), sleep(stopDeadlineMs, false, { ref: false })])) return;
  child.kill('SIGKILL');
  await ended;
};
