import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { wrongConfigurationCode } from '../services/configuration-error.ts';
import nodeFlags from './node-flags.json' with { type: 'json' };
import { projectFolder } from './project.ts';

export interface PartOptions {
  /** As it is told of in sentences: `gateway`. */
  name: string;
  /** What it runs, below the project's folder. */
  main: string;
  env: NodeJS.ProcessEnv;
  /** Aborted when it has to end. */
  signal: AbortSignal;
  /** What it has to end by itself, before it is killed. */
  stopMs: number;
  log: (line: string) => void;
}

// Chunks of streams lie outside of V8's heap and are freed when the small objects that hold them are collected: a young generation
// that may grow to 64 MB collects them a gigabyte later. Kept small it also makes a fresh gateway 100 MB smaller.
const flags: readonly string[] = nodeFlags;

const [firstPauseMs, longestPauseMs] = [500, 30_000];
/** One that has lived for so long has not failed at its start. */
const soundMs = 60_000;

/**
 * Keeps a process running until `signal` is aborted: says how it has ended, and starts it again, ever later. It goes with this
 * process, however that ends, as it has a channel to it. Returns once it has ended; throws when its configuration is wrong.
 */
export const keepRunning = async ({ name, main, env, signal, stopMs, log }: PartOptions): Promise<void> => {
  for (let pauseMs = firstPauseMs; !signal.aborted; ) {
    const startedAt = performance.now();
    const child = spawn(process.execPath, [...flags, join(projectFolder, main)], {
      cwd: projectFolder,
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const ended = endOf(child);
    const stop = () => void end(child, stopMs);
    signal.addEventListener('abort', stop, { once: true });
    const how = await ended;
    signal.removeEventListener('abort', stop);
    if (signal.aborted) return;
    if (child.exitCode === wrongConfigurationCode) throw new Error(`The ${name} gives up: its configuration is wrong.`);
    if (performance.now() - startedAt > soundMs) pauseMs = firstPauseMs;
    log(`The ${name} ${how}; it is started again in ${pauseMs / 1000} s.`);
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
    pauseMs = Math.min(2 * pauseMs, longestPauseMs);
  }
};

const endOf = (child: ChildProcess): Promise<string> =>
  once(child, 'exit').then(
    ([code, signal]) => (signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`),
    (error: unknown) => `does not start (${error})`,
  );

const end = async (child: ChildProcess, stopMs: number): Promise<void> => {
  child.kill('SIGTERM');
  await sleep(stopMs, undefined, { ref: false });
  child.kill('SIGKILL');
};
