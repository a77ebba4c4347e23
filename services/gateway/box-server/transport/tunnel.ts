import { Agent, type ClientRequest, type RequestOptions, request } from 'node:http';
import type { Socket } from 'node:net';
import { CodeBoxError } from '#contract';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { connectToBox } from './socket.ts';

/** The most tunnels that a box server keeps open, for all ports together. */
const maxTunnels = 64;
const openDeadlineMs = 15_000;
/** Shorter than the keep-alive timeout of web servers, so that a reused connection is not just being closed. */
const idleMs = 1000;

/**
 * Opens a byte stream to the server that listens on `port` of the loopback interface inside a box. Throws `bad_gateway` when nothing
 * listens there, `too_many_requests` when the box has too many tunnels, and `unavailable` when the box does not respond.
 */
const openTunnel = (endpoint: Endpoint, port: number): Promise<Socket> =>
  new Promise((opened, failed) => {
    const handshake = request({
      path: `/codebox/tunnel/${port}`,
      headers: { Host: 'localhost', Connection: 'Upgrade', Upgrade: 'tunnel', [tokenHeader]: endpoint.token },
      createConnection: (_options, done) => {
        connectToBox(endpoint).then((socket) => done(null, socket), done as (error: Error) => void);
        return undefined;
      },
    });
    const deadline = setTimeout(() => handshake.destroy(new Error('no response in time')), openDeadlineMs);
    handshake.once('close', () => clearTimeout(deadline));
    handshake.once('error', (cause) => failed(cause instanceof CodeBoxError ? cause : unavailable(cause)));
    handshake.once('response', (response) => {
      failed(refusal(response.statusCode, port));
      handshake.destroy();
    });
    handshake.once('upgrade', (_response, stream, head) => {
      // The stream is the socket that `createConnection` has passed.
      const socket = stream as Socket;
      if (head.length > 0) socket.unshift(head);
      opened(socket);
    });
    handshake.end();
  });

const unavailable = (cause: unknown) =>
  new CodeBoxError('unavailable', 'The box does not respond.', { cause, retryAfterSeconds: 1 });

/** Thrown for a port on which nothing listens. */
export class ClosedPort extends CodeBoxError {
  constructor(port: number) {
    super('bad_gateway', `Nothing listens on port ${port} in this box.`);
  }
}

const refusal = (status: number | undefined, port: number): CodeBoxError => {
  if (status === 502) return new ClosedPort(port);
  if (status === 429) return tooMany();
  return unavailable({ status });
};

const tooMany = () =>
  new CodeBoxError('too_many_requests', `The ports of a box take at most ${maxTunnels} connections at once.`, {
    retryAfterSeconds: 1,
  });

/**
 * The tunnels to one box. A tunnel is reused only for repeatable requests, because the server may close it at any time. Tunnels end with
 * the box, or by `close`.
 */
export const createTunnels = (endpoint: Endpoint, allow: () => Promise<void> = async () => {}) => {
  const open = new Set<Socket>();
  let opening = 0;

  const agent = new Agent({ keepAlive: true, maxFreeSockets: 8, timeout: idleMs });

  const dropIdle = (): boolean => {
    const idle = Object.values(agent.freeSockets).flat()[0];
    // Removed at once, because its 'close' event comes later.
    if (idle) open.delete(idle as Socket);
    return idle?.destroy() !== undefined;
  };

  const connect = async (port: number): Promise<Socket> => {
    if (open.size + opening >= maxTunnels && !dropIdle()) throw tooMany();
    opening += 1;
    try {
      await allow();
      const socket = await openTunnel(endpoint, port);
      open.add(socket);
      // Users of the socket get its errors anyway; without a listener, the error of an unused one would end the process.
      socket.on('error', () => {});
      socket.once('close', () => open.delete(socket));
      return socket;
    } finally {
      opening -= 1;
    }
  };

  const createConnection: RequestOptions['createConnection'] = ({ port }, done) => {
    connect(Number(port)).then((socket) => done(null, socket), done as (error: Error) => void);
    return undefined;
  };
  // Overrides the method of the agent, as Node documents it, so that the agent opens tunnels.
  Object.assign(agent, { createConnection });

  return {
    /** Starts a request to a port; the caller writes and ends it and handles its errors. */
    request: (port: number, options: RequestOptions, mayShare: boolean): ClientRequest =>
      request({ ...options, host: 'localhost', port, ...(mayShare ? { agent } : { createConnection }) }),

    close(): void {
      agent.destroy();
      for (const socket of open) socket.destroy();
    },
  };
};

export type Tunnels = ReturnType<typeof createTunnels>;
