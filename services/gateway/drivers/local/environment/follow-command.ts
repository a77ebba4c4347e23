import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const keptLines = 30;

/**
 * Runs a long-running program of the host and logs each line that it prints. Throws an Error with the last lines when it fails, or when
 * `signal` ends it.
 */
export const followCommand = async (
  argv: readonly string[],
  { log, signal, env }: { log: (line: string) => void; signal: AbortSignal; env?: Record<string, string> },
): Promise<void> => {
  const [file = '', ...args] = argv;
  const child = spawn(file, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
    ...(env === undefined ? {} : { env }),
  });
  const last: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      last.push(line);
      if (last.length > keptLines) last.shift();
      log(line);
    });
  }
  await new Promise<void>((done, failed) => {
    const fail = (why: string) => failed(new Error(`${argv.slice(0, 3).join(' ')}: ${why}\n${last.join('\n')}`));
    child.once('error', (error) => fail(error.message));
    child.once('close', (code, killedBy) => (code === 0 ? done() : fail(killedBy ?? `exit code ${code}`)));
  });
};
