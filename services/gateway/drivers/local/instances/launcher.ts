import { spawn } from 'node:child_process';
import { open, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { CodeBoxError } from '#contract';
import type { InstanceFolders } from './instance-folder.ts';

const script = fileURLToPath(new URL('launch.sh', import.meta.url));

export interface LaunchSpec {
  id: string;
  /** Options of bubblewrap; they are passed in a file, so that they do not appear in the process list. */
  options: readonly string[];
  /** The command that bubblewrap runs. */
  command: readonly string[];
  /** The command that runs bubblewrap: `prlimit` and its arguments. */
  prefix: readonly string[];
  filter: string;
  /** The files to write 0 to in order to join control groups. */
  joinFiles: readonly string[];
  /** The file for the output of the sandbox. */
  logFile: string;
  /** Whether the sandbox gets a mount namespace of its own, which root needs for the disk. */
  ownMounts: boolean;
  /** Called when the sandbox has ended, if this process still runs. */
  onEnd: () => void;
}

/**
 * Starts a sandbox that outlives this process, in a session of its own. Resolves once the first process of the box runs; throws `unavailable`
 * with the output of the sandbox in the cause when it does not.
 */
export const launch = async (folders: InstanceFolders, spec: LaunchSpec, signal: AbortSignal): Promise<void> => {
  const folder = folders.path(spec.id);
  await writeFile(`${folder}/options`, spec.options.map((option) => `${option}\0`).join(''));
  const argv = [
    ...(spec.ownMounts ? ['unshare', '--mount', '--propagation', 'private'] : []),
    ...['/bin/sh', script, folder, spec.filter, ...spec.joinFiles, '--', ...spec.prefix],
    ...['bwrap', '--seccomp', '3', '--json-status-fd', '4', '--args', '5', '--', ...spec.command],
  ];
  const log = await open(spec.logFile, 'ax', 0o600);
  try {
    const ended = await startDetached(argv, log.fd, spec.onEnd);
    await waitUntilStarted(folders, spec, ended, signal);
  } finally {
    await log.close();
  }
};

/** Starts the process; resolves with a function that returns whether it has ended. */
const startDetached = (argv: readonly string[], output: number, onEnd: () => void): Promise<() => boolean> =>
  new Promise((done, failed) => {
    const [file = '', ...args] = argv;
    const child = spawn(file, args, {
      detached: true,
      stdio: ['ignore', output, output],
      cwd: '/',
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    });
    child.unref();
    child.once('exit', onEnd);
    child.once('spawn', () => done(() => child.exitCode !== null || child.signalCode !== null));
    child.once('error', (cause) => {
      failed(new CodeBoxError('unavailable', 'The sandbox could not be started.', { cause, retryAfterSeconds: 5 }));
    });
  });

const waitUntilStarted = async (
  folders: InstanceFolders,
  { id, logFile }: LaunchSpec,
  ended: () => boolean,
  signal: AbortSignal,
): Promise<void> => {
  for (;;) {
    const { init, exitCode } = await folders.status(id);
    if (exitCode === undefined && !ended() && init !== undefined) {
      // Stored with its start time, so that the process can be identified even when its parent has died.
      await writeFile(`${folders.path(id)}/init`, await readFile(`/proc/${init}/stat`, 'utf8').catch(() => ''));
      return;
    }
    if (exitCode !== undefined || ended() || signal.aborted) {
      const output = await folders.log(logFile);
      throw new CodeBoxError('unavailable', 'The sandbox could not be started.', {
        cause: new Error(`the sandbox ${signal.aborted ? 'was not ready in time' : 'ended'}: ${output}`),
        retryAfterSeconds: 5,
      });
    }
    await new Promise((done) => setTimeout(done, 3));
  }
};
