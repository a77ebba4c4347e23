import { type ChildProcess, spawn } from 'node:child_process';
import { connect, Socket } from 'node:net';
import { nextLine } from './line.ts';

/** What a fork needs to enter a box; the counterpart is `codebox_server/parent/entry.py`. */
export interface ForkRequest {
  init: number;
  start: string;
  groups: readonly string[];
  uid: number;
  limits: Record<string, number>;
}

/** A running parent. */
export interface Parent {
  /** How many forks were requested of it. */
  forks: number;
  readonly ended: boolean;
  /**
   * Forks a box server into a sandbox; resolves with a function that passes it its environment, with which it serves. Throws an Error with the
   * reason when there is none; then nothing of it is left.
   */
  fork(request: ForkRequest, environment: Record<string, string>, signal: AbortSignal): Promise<() => void>;
  /** Ends it. The servers that it has forked go on. */
  end(): void;
}

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
    return createParent(child, `/proc/${pid}/root/run/parent/socket`);
  } catch (cause) {
    child.kill('SIGKILL');
    throw new Error(`the parent of boxes did not start: ${errors.trim()}`, { cause });
  } finally {
    // It must not keep this process running.
    child.unref();
    for (const stream of [child.stdin, child.stdout, child.stderr]) if (stream instanceof Socket) stream.unref();
  }
};

const createParent = (child: ChildProcess, path: string): Parent => ({
  forks: 0,
  get ended() {
    return child.exitCode !== null || child.signalCode !== null;
  },
  async fork(request, environment, signal) {
    this.forks += 1;
    const connection = connect({ path, signal });
    // Whoever waits for a line learns of it.
    connection.on('error', () => {});
    try {
      connection.write(`${JSON.stringify(request)}\n`);
      const reply = await nextLine(connection, signal);
      if (reply !== 'ready') throw new Error(reply);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return () =>
      void connection
        .resume()
        .unref()
        .end(`${JSON.stringify({ environment })}\n`);
  },
  end() {
    child.kill('SIGKILL');
  },
});
