import { CodeBoxError } from '../problems/errors.ts';
import { createChannel } from './channel.ts';
import { type CallOptions, inTime } from './transport.ts';

/** The part of a WebSocket that the client needs: those of browsers, Node 22 and later, and `ws` have it. */
export interface SocketLike {
  binaryType: string;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: 'open' | 'message' | 'close' | 'error', listener: (event: SocketEvent) => void): void;
}

interface SocketEvent {
  readonly data?: unknown;
  readonly code?: number;
  readonly reason?: string;
}

export type SocketClass = new (url: string) => SocketLike;

/** An open WebSocket as messages, which can be read once. A reader that leaves closes it. */
export interface Socket extends AsyncIterable<string | Uint8Array<ArrayBuffer>> {
  send: (data: string | Uint8Array<ArrayBuffer>) => void;
  close: () => void;
}

/** Deadline for opening a WebSocket, and for the first reply to a request over it. */
export const answerSeconds = 60;
const normal = 1000;

const sizeOf = (message: string | Uint8Array) => (typeof message === 'string' ? message.length : message.byteLength);

/**
 * Opens a WebSocket. Throws `unavailable` when it is refused or the connection breaks later; an orderly close ends the
 * messages. Aborting the signal closes it.
 */
export const openSocket = async (
  url: string,
  SocketClass: SocketClass | undefined,
  { signal, deadlineSeconds = answerSeconds }: CallOptions,
): Promise<Socket> => {
  if (!SocketClass) throw new CodeBoxError('internal', 'This platform has no WebSocket: pass one to createClient.');
  signal?.throwIfAborted();
  const socket = new SocketClass(url);
  socket.binaryType = 'arraybuffer';
  const messages = createChannel<string | Uint8Array<ArrayBuffer>>(() => socket.close(normal));
  const leave = () => {
    messages.end(signal?.reason);
    socket.close(normal);
  };
  const opened = new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve());
    socket.addEventListener('close', ({ code, reason }) => {
      signal?.removeEventListener('abort', leave);
      const text = `The WebSocket was refused or closed (${code ?? 'no code'}). ${reason ?? ''}`.trim();
      const broken = new CodeBoxError('unavailable', text, { retryAfterSeconds: 1 });
      messages.end(code === normal ? undefined : broken);
      reject(broken);
    });
  });
  // The close event follows and has the details.
  socket.addEventListener('error', () => {});
  socket.addEventListener('message', ({ data }) => {
    const message = data instanceof ArrayBuffer ? new Uint8Array(data) : String(data);
    messages.push(message, sizeOf(message));
  });
  signal?.addEventListener('abort', leave, { once: true });

  try {
    await inTime(opened, deadlineSeconds);
  } catch (error) {
    socket.close(normal);
    throw signal?.aborted ? signal.reason : error;
  }

  return {
    send: (data) => socket.send(data),
    close: () => socket.close(normal),
    [Symbol.asyncIterator]: () => messages[Symbol.asyncIterator](),
  };
};
