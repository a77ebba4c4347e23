import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ProgramResult {
  code: number | null;
  output: string;
}

const outputBytes = 65_536;

/** Runs a program and resolves with its exit code and the last 64 KiB of its output. Throws if it cannot start. */
export const runProgram = async (argv: readonly string[], timeoutMs = 60_000): Promise<ProgramResult> => {
  const [command = '', ...args] = argv;
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutMs, killSignal: 'SIGKILL' });
  let output = '';
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-outputBytes);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
};

/** Like `runProgram`, but throws for any exit code other than 0, with the output. */
export const mustRun = async (argv: readonly string[], timeoutMs?: number): Promise<string> => {
  const { code, output } = await runProgram(argv, timeoutMs);
  if (code !== 0) throw new Error(`${argv.join(' ')} exited with ${code}: ${output}`);
  return output.trim();
};

/** Sends SIGTERM, then SIGKILL after `graceMs`. Resolves once the child has ended. */
export const endChild = async (child: ChildProcess, graceMs: number): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'exit');
  child.kill('SIGTERM');
  const ended = await Promise.race([closed.then(() => true), sleep(graceMs, false, { ref: false })]);
  if (ended) return;
  child.kill('SIGKILL');
  await closed;
};
