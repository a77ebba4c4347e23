import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { CodeBoxError } from '#contract';
import type { Endpoint } from './endpoint.ts';
import { requireIdentity } from './identity.ts';

/** Linux's O_PATH, which Node does not name: a handle on the file itself, not on what it leads to. */
const O_PATH = 0o10000000;

const connectDeadlineMs = 5000;

/**
 * Connects to the box server of an instance. The only place that does so. Throws `unavailable` when nothing listens there, or when
 * another instance does.
 *
 * The path of a Unix socket holds the instance's id, which is never used again, in a folder that only this deployment writes to.
 * The last part of it is the box's own, and not trusted: a symbolic link there could lead to the Docker daemon. The file is opened
 * without following links, checked to be a socket, and connected through its handle. A TCP address may belong to another instance
 * by now, which has to prove that it does not before anything is sent to it.
 */
export const connectToBox = async (endpoint: Endpoint): Promise<Socket> => {
  const { address } = endpoint;
  if (address.startsWith('unix:')) return await connectUnix(address.slice('unix:'.length));
  const match = /^tcp:(?:\[([0-9a-f:]+)\]|([0-9.]+)):(\d+)$/i.exec(address);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) throw new CodeBoxError('internal', `Not an address of a box server: ${address}`);
  const socket = await whenConnected(connect({ host, port: Number(match?.[3]), noDelay: true }));
  await requireIdentity(socket, endpoint);
  return socket;
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
