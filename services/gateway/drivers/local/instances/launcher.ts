import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open, readFile, writeFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { CodeBoxError } from '#contract';
import { nextLine } from '../../parent/line.ts';
import type { InstanceFolders } from './instance-folder.ts';
import { type ProcessIdentity, parseStat } from './processes.ts';

const [listenLooks, listenPauseMs] = [40, 5];
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
  /** The command that makes the file system of its disk, if it has one. Its words contain no spaces. */
  format: readonly string[];
  /** The files to write 0 to in order to join control groups. */
  joinFiles: readonly string[];
  /** The file for the output of the sandbox. */
  logFile: string;
  /** The socket that a box server creates. */
  socket: string;
  /** Whether the sandbox gets a mount namespace of its own, which root needs for the disk. */
  ownMounts: boolean;
  /** Called when the sandbox has ended, if this process still runs. */
  onEnd: () => void;
  /**
   * Forks a box server into the sandbox, whose command is `holderCommand`; resolves with a function that lets it serve, or with undefined
   * when the command has to start a server itself. Throws when nothing may run in the sandbox, as another process could still enter it.
   */
  fork?: (init: ProcessIdentity) => Promise<(() => void) | undefined>;
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
    const { ended, holder } = await startDetached(argv, log.fd, spec);
    // bubblewrap writes its status before it lets the command run, so nothing is left to wait for after this.
    if (holder !== undefined) await nextLine(holder, signal).catch(() => notStarted(folders, spec, signal));
    const init = await waitUntilStarted(folders, spec, ended, signal);
    if (spec.fork === undefined || holder === undefined || init === undefined) return;
    const serve = await spec.fork(init);
    holder.end(serve === undefined ? 'own\n' : 'forked\n');
    if (serve === undefined) return;
    serve();
    await untilListening(spec.socket);
  } finally {
    await log.close();
  }
};

/** A forked server listens after some 20 ms. A look for its socket costs a fraction of a request that finds none. */
const untilListening = async (socket: string): Promise<void> => {
  for (let left = listenLooks; left > 0 && !existsSync(socket); left--) await sleep(listenPauseMs);
};

/** A started process. */
interface Started {
  ended: () => boolean;
  /** Leads to the command of a sandbox that may get a forked server. */
  holder: Socket | undefined;
}

const startDetached = (
  argv: readonly string[],
  output: number,
  { format, onEnd, fork }: LaunchSpec,
): Promise<Started> =>
  new Promise((done, failed) => {
    const [file = '', ...args] = argv;
    const child = spawn(file, args, {
      detached: true,
      stdio: ['ignore', output, output, ...(fork === undefined ? [] : [...four, 'pipe' as const])],
      cwd: '/',
      env: {
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        LC_ALL: 'C',
        FORMAT: format.join(' '),
      },
    });
    child.unref();
    // The types of Node know five descriptors.
    const seventh: unknown = [...child.stdio][7];
    const holder = seventh instanceof Socket ? seventh : undefined;
    // The end of the sandbox is noticed elsewhere.
    holder?.on('error', () => {});
    child.once('exit', onEnd);
    const ended = () => child.exitCode !== null || child.signalCode !== null;
    child.once('spawn', () => done({ ended, holder }));
    child.once('error', (cause) => {
      failed(new CodeBoxError('unavailable', 'The sandbox could not be started.', { cause, retryAfterSeconds: 5 }));
    });
  });

/** The descriptors 3 to 6, which the script opens. */
const four = ['ignore', 'ignore', 'ignore', 'ignore'] as const;

const waitUntilStarted = async (
  folders: InstanceFolders,
  { id, logFile }: LaunchSpec,
  ended: () => boolean,
  signal: AbortSignal,
): Promise<ProcessIdentity | undefined> => {
  for (;;) {
    const { init, exitCode } = await folders.status(id);
    if (exitCode === undefined && !ended() && init !== undefined) {
      // Stored with its start time, so that the process can be identified even when its parent has died.
      const stat = await readFile(`/proc/${init}/stat`, 'utf8').catch(() => '');
      await writeFile(`${folders.path(id)}/init`, stat);
      return parseStat(stat);
    }
    if (exitCode !== undefined || ended() || signal.aborted) {
      return await notStarted(folders, { logFile }, signal);
    }
    await new Promise((done) => setTimeout(done, 3));
  }
};

const notStarted = async (
  folders: InstanceFolders,
  { logFile }: Pick<LaunchSpec, 'logFile'>,
  signal: AbortSignal,
): Promise<never> => {
  const output = await folders.log(logFile);
  throw new CodeBoxError('unavailable', 'The sandbox could not be started.', {
    cause: new Error(`the sandbox ${signal.aborted ? 'was not ready in time' : 'ended'}: ${output}`),
    retryAfterSeconds: 5,
  });
};
