import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const noticeMs = 1000;

interface MachineLockOptions {
  /** What the lock is for, as messages name it. */
  purpose: string;
  /** The longest wait for its holder. */
  waitMs: number;
  log: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Takes a lock that one process of this machine holds at a time, and says so when it has to wait. Disposing of it releases it, and so does the end
 * of this process, whatever ends it. Throws an Error that names the holder when the wait is over.
 */
export const lockMachine = async (
  path: string,
  { purpose, waitMs, log, signal }: MachineLockOptions,
): Promise<AsyncDisposable> => {
  signal.throwIfAborted();
  await mkdir(dirname(path), { recursive: true });
  // The lock is held while `cat` runs, which ends when its input does.
  const held = ['sh', '-c', 'echo locked; exec cat'];
  const args = ['--exclusive', '--no-fork', `--timeout=${waitMs / 1000}`, path, ...held];
  // Ctrl-C in the terminal reaches the tests first, which still need the lock to clean up.
  const child = spawn('flock', args, { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
  const ended = once(child, 'exit').then(() => false);
  const locked = once(child.stdout, 'data').then(() => true);
  const holder = async () => `process ${(await readFile(path, 'utf8')).trim() || 'unknown'}`;
  const cancel = () => child.kill('SIGKILL');
  signal.addEventListener('abort', cancel);
  try {
    const isFree = await Promise.race([locked, ended, sleep(noticeMs)]);
    if (isFree === undefined) log(`Waiting for ${purpose}, which ${await holder()} uses.`);
    const isLocked = await Promise.race([locked, ended]);
    signal.throwIfAborted();
    if (!isLocked) throw new Error(`${await holder()} still uses ${purpose} after ${waitMs / 1000} s`);
  } finally {
    signal.removeEventListener('abort', cancel);
  }
  await writeFile(path, `${process.pid}\n`);
  return {
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await ended;
    },
  };
};
