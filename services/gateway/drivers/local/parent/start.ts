import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { nextLine } from '../../parent/line.ts';
import { createParent, type Parent } from '../../parent/parent.ts';

const maxErrorLength = 2000;

/** Starts a parent; resolves once it has loaded everything. Throws an Error with its last output. */
export const startParent = async (command: readonly string[], signal: AbortSignal): Promise<Parent> => {
  const [file = '', ...args] = command;
  const child = spawn(file, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: '/',
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
  });
  let errors = '';
  child.stderr.on('data', (text) => {
    errors = `${errors}${text}`.slice(-maxErrorLength);
  });
  // A program that is missing ends the streams too.
  child.on('error', () => {});
  try {
    // Its sandbox alone has its socket, at a path that no box can write.
    const pid = Number(await nextLine(child.stdout, signal));
    const process = {
      get ended() {
        return child.killed || child.exitCode !== null || child.signalCode !== null;
      },
      end: () => void child.kill('SIGKILL'),
    };
    return createParent(process, `/proc/${pid}/root/run/parent/socket`);
  } catch (cause) {
    child.kill('SIGKILL');
    throw new Error(`the parent of boxes did not start: ${errors.trim()}`, { cause });
  } finally {
    // It must not keep this process running.
    child.unref();
    for (const stream of [child.stdin, child.stdout, child.stderr]) if (stream instanceof Socket) stream.unref();
  }
};
