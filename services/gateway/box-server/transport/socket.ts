import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as connectWithTls, createSecureContext } from 'node:tls';
import { CodeBoxError } from '#contract';
import { type Endpoint, publicKeyOf } from './endpoint.ts';

/** Linux's O_PATH, for which Node has no constant: a handle on the file itself, without opening it. */
const O_PATH = 0o10000000;

const connectDeadlineMs = 5000;

/**
 * Shared by all connections, as it contains nothing of a box: making one takes longer than finding that nothing listens yet. The certificates
 * are self-signed, so no authority is loaded.
 */
const secureContext = createSecureContext({ minVersion: 'TLSv1.3', ca: [] });

/**
 * Connects to the box server of an instance; no other code does. Throws `unavailable` when nothing listens at the address, or another
 * instance does.
 *
 * The path of a Unix socket contains the id of the instance, which is never reused, in a folder that only this deployment writes to. The
 * last part of the path is written by the box and not trusted: a symbolic link there could lead to the Docker daemon. So the file is opened
 * without following links, checked to be a socket, and connected through its handle. An IP address may belong to another instance by now,
 * so the connection is encrypted with a key that only the expected instance has, and closed before anything is sent if it has another.
 */
export const connectToBox = async ({ address, token }: Endpoint): Promise<Socket> => {
  if (address.startsWith('unix:')) return await connectUnix(address.slice('unix:'.length));
  const match = /^tls:(?:\[([0-9a-f:]+)\]|([0-9.]+)):(\d+)$/i.exec(address);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) throw new CodeBoxError('internal', `Not an address of a box server: ${address}`);
  return await connectTls({ host, port: Number(match?.[3]) }, token);
};

const connectTls = async (to: { host: string; port: number }, token: string): Promise<Socket> => {
  // The certificate is not verified: its key is compared below.
  const socket = connectWithTls({ ...to, secureContext, rejectUnauthorized: false });
  socket.setNoDelay(true);
  await whenConnected(socket, 'secureConnect');
  const key = socket.getPeerX509Certificate()?.publicKey.export({ format: 'der', type: 'spki' });
  if (key?.equals(publicKeyOf(token))) return socket;
  socket.destroy();
  throw unavailable(new Error(`the server at ${to.host} has the key of another instance`));
};

const connectUnix = async (path: string): Promise<Socket> => {
  let handle: number;
  try {
    handle = openSync(path, O_PATH | constants.O_NOFOLLOW);
  } catch (cause) {
    throw unavailable(cause);
  }
  try {
    if (!fstatSync(handle).isSocket()) throw unavailable(new Error('not a socket'));
    return await whenConnected(connect(`/proc/self/fd/${handle}`));
  } finally {
    closeSync(handle);
  }
};

const whenConnected = (socket: Socket, event = 'connect'): Promise<Socket> =>
  new Promise((done, failed) => {
    const refuse = (cause: unknown) => {
      clearTimeout(deadline);
      socket.destroy();
      failed(unavailable(cause));
    };
    const deadline = setTimeout(() => refuse(new Error('connect timed out')), connectDeadlineMs);
    socket.once('error', refuse);
    socket.once(event, () => {
      clearTimeout(deadline);
      socket.off('error', refuse);
      done(socket);
    });
  });

const unavailable = (cause: unknown): CodeBoxError =>
  new CodeBoxError('unavailable', 'The box does not respond.', { cause, retryAfterSeconds: 1 });
