import { spawn } from 'node:child_process';
import { projectFolder } from './project.ts';

/** How many tests of a step passed and failed. */
export interface Totals {
  passed: number;
  failed: number;
}

/** A test, or a file of tests, that failed beside the others and passed by itself, with what its first failure said. */
export interface Unsteady {
  name: string;
  words: string;
}

/** Runs a program in the project with its output shown, and gives its exit code; 1 when a signal ended it. */
export const runShown = (
  argv: readonly string[],
  { cwd = projectFolder, env, signal }: { cwd?: string; env?: Record<string, string>; signal: AbortSignal },
): Promise<number> =>
  new Promise((done) => {
    const [file = '', ...args] = argv;
    const child = spawn(file, args, { cwd, stdio: 'inherit', signal, env: { ...process.env, ...env } });
    child.once('error', (error) => {
      process.stderr.write(`${file}: ${error.message}\n`);
      done(1);
    });
    child.once('exit', (code) => done(code ?? 1));
  });
