import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { wrongConfigurationCode } from '../services/configuration-error.ts';
import nodeFlags from './node-flags.json' with { type: 'json' };
import { projectFolder } from './project.ts';

export interface PartOptions {
  /** The name in log lines: `gateway`. */
  name: string;
  /** The entry file, relative to the project's folder. */
  main: string;
  env: NodeJS.ProcessEnv;
  /** Stops the process when it is aborted. */
  signal: AbortSignal;
  /** The time that the process has to stop after SIGTERM before it is killed. */
  stopMs: number;
  log: (line: string) => void;
  /** Called when the process reports that it serves. */
  onServing?: () => void;
}

// Chunks of streams lie outside V8's heap and are freed when the small objects that hold them are collected: a young generation
// that may grow to 64 MB collects them a gigabyte later. A small one also saves 100 MB in a fresh gateway.
const flags: readonly string[] = nodeFlags;

const [firstPauseMs, longestPauseMs] = [500, 30_000];
/** A process that has run for this long has started successfully, which resets the pause. */
const stableMs = 60_000;

/**
 * Keeps a process running until `signal` is aborted: logs how it ended, and restarts it after increasing pauses. The process exits
 * with this one, because it has an IPC channel to it. Resolves once the process has ended; rejects if its configuration is invalid.
 */
export const keepRunning = async (options: PartOptions): Promise<void> => {
  const { name, main, env, signal, stopMs, log, onServing } = options;
  for (let pauseMs = firstPauseMs; !signal.aborted; ) {
    const startedAt = performance.now();
    const child = spawn(process.execPath, [...flags, join(projectFolder, main)], {
      cwd: projectFolder,
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    if (onServing) child.once('message', onServing);
    const ended = endOf(child);
    const stop = () => void end(child, stopMs);
    signal.addEventListener('abort', stop, { once: true });
    const outcome = await ended;
    signal.removeEventListener('abort', stop);
    if (signal.aborted) return;
    if (child.exitCode === wrongConfigurationCode)
      throw new Error(`The ${name} gives up: its configuration is invalid.`);
    if (performance.now() - startedAt > stableMs) pauseMs = firstPauseMs;
    log(`The ${name} ${outcome}; it is started again in ${pauseMs / 1000} s.`);
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
