import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';
import { untilReady } from './line.ts';

/** What a fork needs to enter a box; the counterpart is `codebox_server/parent/entry.py`. */
export type ForkRequest = {
  /** The id of the box's first process. */
  init: number;
  uid: number;
  /** By the names of the kernel, such as NOFILE. */
  limits: Record<string, number>;
} & (
  | {
      /** When that process started, as in `/proc/<pid>/stat`. */
      start: string;
      /** Files to write 0 to in order to join the control groups of the box. */
      groups: readonly string[];
    }
  | {
      /** The id of the container whose first process it is. */
      container: string;
    }
);

/** A running parent, which this process uses until it leaves it. */
export interface Parent {
  /** Whether it has ended, is about to, or has forked enough. */
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
  /** Stops using it. It ends soon after the last gateway has left; the servers that it has forked continue. */
  leave(): void;
}

/** Returns the parent that listens in a folder, to which the connection `use` leads. `end` ends it and lets no other gateway find it. */
export const createParent = (folder: string, use: Socket, end: () => void): Parent => {
  // It must not keep this process running. Its end is noticed only while it is read.
  use.unref().resume();
  return {
    get ended() {
      return use.destroyed;
    },
    async fork(request, environment, closeMs, signal) {
      const connection = connect({ path: `${folder}/socket` });
      const closed = new Promise<true>((done) => connection.once('close', () => done(true)));
      const hasClosed = () => Promise.race([closed, sleep(closeMs, false, { ref: false })]);
      // The wait for a line reports the error. A parent that no longer listens, or whose folder is gone, is useless.
      connection.on('error', ({ code }: NodeJS.ErrnoException) => {
        if (code === 'ENOENT' || code === 'ECONNREFUSED') use.destroy();
      });
      try {
        const { init, ...entry } = request;
        // It comes first, because the parent looks at nothing else.
        connection.write(`${JSON.stringify({ init, ...entry })}\n`);
        await untilReady(connection, signal);
      } catch (error) {
        // A forked process gives up at the end of this side, and every one keeps the other side open as long as it lives.
        connection.resume().end();
        if (await hasClosed()) throw error;
        // Otherwise it could fork once it goes on.
        if (!use.destroyed) end();
        use.destroy();
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
    leave() {
      use.destroy();
    },
  };
};
