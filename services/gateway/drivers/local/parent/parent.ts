import { type ChildProcess, spawn } from 'node:child_process';
import { connect, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';
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
  /** By `performance.now()`. */
  readonly startedAt: number;
  /** Whether it has ended, or is about to. */
  readonly ended: boolean;
  /**
   * Forks a box server into a sandbox; resolves with a function that passes it its environment, with which it serves. Throws an Error with the
   * reason when there is none and no process is left that could enter the sandbox, for which it waits `closeMs` and then ends a parent that
   * hangs. Throws the CodeBoxError `unavailable` when one may be left: no code of a user may run in that sandbox.
   */
  fork(
    request: ForkRequest,
    environment: Record<string, string>,
    closeMs: number,
    signal: AbortSignal,
  ): Promise<() => void>;
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
  startedAt: performance.now(),
  get ended() {
    return child.killed || child.exitCode !== null || child.signalCode !== null;
  },
  async fork(request, environment, closeMs, signal) {
    this.forks += 1;
    const connection = connect({ path });
    const closed = new Promise<true>((done) => connection.once('close', () => done(true)));
    const hasClosed = () => Promise.race([closed, sleep(closeMs, false, { ref: false })]);
    // Whoever waits for a line learns of it.
    connection.on('error', () => {});
    try {
      connection.write(`${JSON.stringify(request)}\n`);
      const reply = await nextLine(connection, signal);
      if (reply !== 'ready') throw new Error(reply);
    } catch (error) {
      // A forked process gives up at the end of this side, and every one keeps the other side open as long as it lives.
      connection.resume().end();
      if (await hasClosed()) throw error;
      // Otherwise it could fork once it goes on.
      this.end();
      if (await hasClosed()) throw error;
      throw new CodeBoxError('unavailable', 'The sandbox could not be started.', {
        cause: error,
        retryAfterSeconds: 5,
      });
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
