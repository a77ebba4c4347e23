import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { CodeBoxError } from '#contract';

/** Linux's O_PATH, which Node does not name: a handle on the file itself, not on what it leads to. */
const O_PATH = 0o10000000;

const connectDeadlineMs = 5000;

/**
 * Connects to a box server at `unix:/path` or `tcp:host:port`. The folder of a Unix socket is writable by the box, so the
 * path is not trusted: a symbolic link there could lead to the Docker daemon. The file is opened without following links,
 * checked to be a socket, and connected through its handle. Throws `unavailable` when nothing listens there.
 */
export const connectToBox = (address: string): Promise<Socket> => {
  if (address.startsWith('unix:')) return connectUnix(address.slice('unix:'.length));
  const match = /^tcp:(.+):(\d+)$/.exec(address);
  if (!match?.[1]) throw new CodeBoxError('internal', `Not an address of a box server: ${address}`);
  return whenConnected(connect({ host: match[1], port: Number(match[2]), noDelay: true }));
};

const connectUnix = async (path: string): Promise<Socket> => {
  let handle: number;
  try {
    handle = openSync(path, O_PATH | constants.O_NOFOLLOW);
  } catch (cause) {
    throw new CodeBoxError('unavailable', 'The box does not answer.', { cause, retryAfterSeconds: 1 });
  }
  try {
    if (!fstatSync(handle).isSocket()) throw new CodeBoxError('unavailable', 'The box does not answer.');
    return await whenConnected(connect(`/proc/self/fd/${handle}`));
  } finally {
    closeSync(handle);
  }
};

const whenConnected = (socket: Socket): Promise<Socket> =>
  new Promise((done, failed) => {
    const refuse = (cause: unknown) => {
      socket.destroy();
      failed(new CodeBoxError('unavailable', 'The box does not answer.', { cause, retryAfterSeconds: 1 }));
    };
    socket.setTimeout(connectDeadlineMs, () => refuse(new Error('connect timed out')));
    socket.once('error', refuse);
    socket.once('connect', () => {
      socket.setTimeout(0);
      socket.off('error', refuse);
      done(socket);
    });
  });
