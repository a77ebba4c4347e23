import { Agent, type ClientRequest, type RequestOptions, request } from 'node:http';
import type { Socket } from 'node:net';
import { CodeBoxError } from '#contract';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { connectToBox } from './socket.ts';

/** As many as a box server holds open at once, for all ports together. */
const maxTunnels = 64;
const openDeadlineMs = 15_000;
/** Shorter than web servers wait for the next request, so that it does not meet a connection which is just being closed. */
const idleMs = 1000;

/**
 * Opens a byte stream to the server that listens at `port` of the loopback inside a box. Throws `bad_gateway` when nothing
 * listens there, `too_many_requests` when the box has too many of them, `unavailable` when the box does not answer.
 */
const openTunnel = (endpoint: Endpoint, port: number): Promise<Socket> =>
  new Promise((opened, failed) => {
    const ask = request({
      path: `/codebox/tunnel/${port}`,
      headers: { Host: 'localhost', Connection: 'Upgrade', Upgrade: 'tunnel', [tokenHeader]: endpoint.token },
      createConnection: (_options, done) => {
        connectToBox(endpoint).then((socket) => done(null, socket), done as (error: Error) => void);
        return undefined;
      },
    });
    const late = setTimeout(() => ask.destroy(new Error('no answer in time')), openDeadlineMs);
    ask.once('close', () => clearTimeout(late));
    ask.once('error', (cause) => failed(cause instanceof CodeBoxError ? cause : unavailable(cause)));
    ask.once('response', (answer) => {
      failed(refusal(answer.statusCode, port));
      ask.destroy();
    });
    ask.once('upgrade', (_answer, stream, head) => {
      // A request to a socket of ours is answered on a socket.
      const socket = stream as Socket;
      if (head.length > 0) socket.unshift(head);
      opened(socket);
    });
    ask.end();
  });

const unavailable = (cause: unknown) =>
  new CodeBoxError('unavailable', 'The box does not answer.', { cause, retryAfterSeconds: 1 });

const refusal = (status: number | undefined, port: number): CodeBoxError => {
  if (status === 502) return new CodeBoxError('bad_gateway', `Nothing listens on port ${port} in this box.`);
  if (status === 429) return tooMany();
  return unavailable({ status });
};

const tooMany = () =>
  new CodeBoxError('too_many_requests', `The ports of a box take at most ${maxTunnels} connections at once.`, {
    retryAfterSeconds: 1,
  });

/**
 * The tunnels to one box. One is used again only for requests that may be repeated, because its server may end it at any
 * time. They end with the box, or by `close`.
 */
export const createTunnels = (endpoint: Endpoint, allow: () => Promise<void> = async () => {}) => {
  const open = new Set<Socket>();
  let opening = 0;

  const agent = new Agent({ keepAlive: true, maxFreeSockets: 8, timeout: idleMs });

  const dropIdle = (): boolean => {
    const idle = Object.values(agent.freeSockets).flat()[0];
    // Counted as gone at once: its `close` comes later.
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
      // Whoever uses it learns of its end; one that nobody uses just goes.
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
  // Its own method, as Node's documentation has it, so that the agent makes tunnels.
  Object.assign(agent, { createConnection });

  return {
    /** Starts a request to a port; it is the caller's to write, end and guard. */
    request: (port: number, options: RequestOptions, mayShare: boolean): ClientRequest =>
      request({ ...options, host: 'localhost', port, ...(mayShare ? { agent } : { createConnection }) }),

    close(): void {
      agent.destroy();
      for (const socket of open) socket.destroy();
    },
  };
};

export type Tunnels = ReturnType<typeof createTunnels>;
