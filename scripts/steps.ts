import { execFile, spawn } from 'node:child_process';
import { projectFolder } from './project.ts';

const mostOutput = 16 << 20;

/** The numbers of passed and failed tests. */
export interface Totals {
  passed: number;
  failed: number;
}

/** A test or test file that failed in the full run and passed by itself, with the output of its failure. */
export interface Unsteady {
  name: string;
  output: string;
}

/** Runs a program in the project. Resolves with its output, and its exit code, or 1 if a signal ended it. */
export const runCaptured = (
  argv: readonly string[],
  { signal }: { signal: AbortSignal },
): Promise<{ code: number; output: string }> =>
  new Promise((done) => {
    const [file = '', ...args] = argv;
    execFile(file, args, { cwd: projectFolder, signal, maxBuffer: mostOutput }, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`;
      if (error === null) done({ code: 0, output });
      else if (typeof error.code === 'number') done({ code: error.code, output });
      else done({ code: 1, output: `${output}${error.message}\n` });
    });
  });

/** Runs a program in the project with inherited output. Resolves with its exit code, or 1 if a signal ended it. */
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
