import { spawn } from 'node:child_process';
import { CodeBoxError } from '#contract';

/** Each output is truncated here; no command of a driver prints more than a few lines. */
const maxOutputBytes = 256 * 1024;

export interface HostCommandOptions {
  signal?: AbortSignal;
  /** After this the command is killed; 20 seconds by default. */
  timeoutMs?: number;
  /** Written to its standard input. */
  input?: string;
  /** The environment; a minimal one with PATH by default. */
  env?: Record<string, string>;
}

const minimalEnvironment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

/**
 * Runs a program of the host (never one of a box) and resolves with its standard output. Throws `unavailable` when it is missing, fails or
 * does not end in time; its standard error is in the cause.
 */
export const runHostCommand = async (argv: readonly string[], options: HostCommandOptions = {}): Promise<string> => {
  const [file = '', ...args] = argv;
  const deadline = AbortSignal.timeout(options.timeoutMs ?? 20_000);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([options.signal, deadline]);
  const fail = (cause: unknown) =>
    new CodeBoxError('unavailable', `The host could not run ${file}.`, { cause, retryAfterSeconds: 5 });
  if (signal.aborted) throw fail(signal.reason);
  return new Promise((done, failed) => {
    const child = spawn(file, args, {
      env: options.env ?? minimalEnvironment,
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    });
    const output = { out: '', err: '' };
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (output.out.length < maxOutputBytes) output.out += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      if (output.err.length < maxOutputBytes) output.err += text;
    });
    // A program that ends without reading its input breaks the pipe; only its exit code matters.
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input);
    child.once('error', (cause) => failed(fail(cause)));
    child.once('close', (code, killedBy) => {
      if (code === 0) return done(output.out);
      failed(fail(new Error(`${argv.join(' ')}: ${killedBy ?? `exit code ${code}`}: ${output.err.trim()}`)));
    });
  });
};
