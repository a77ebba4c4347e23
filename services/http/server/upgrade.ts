import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import type { HttpEnv, Upgrade } from '../env.ts';

/** An application that responds to requests: a Hono app with any variables. */
export interface HttpApp {
  fetch: (request: Request, env: HttpEnv['Bindings']) => Response | Promise<Response>;
}

/** Deadline of a handshake; a handler takes less, even for a new terminal. */
const handshakeMs = 60_000;

export interface UpgradeOptions {
  /** How long a refusal that nobody reads may keep its connection. */
  refusalMs?: number;
}

/**
 * Whether the request asks for a WebSocket. Other protocols, such as h2c, are ignored, and such a request gets a normal
 * response.
 */
export const isWebSocketRequest = (request: Pick<IncomingMessage, 'method' | 'headers'>): boolean =>
  request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket';

/**
 * Sends upgrade requests through the application, so that they are authenticated, checked, logged and refused like all
 * others: with a status and a body. Returns a function that cuts upgraded connections.
 */
export const serveUpgrades = (
  server: Server,
  app: HttpApp,
  { refusalMs = 10_000 }: UpgradeOptions = {},
): (() => void) => {
  const open = new Set<Socket>();

  server.on('upgrade', (incoming: IncomingMessage, stream: Duplex, head: Buffer) => {
    // An HTTP server that is not a proxy has only sockets here.
    const socket = stream as Socket;
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const broken = () => socket.destroy();
    socket.on('error', broken);
    socket.setTimeout(handshakeMs, broken);

    const outgoing = new ServerResponse(incoming);
    outgoing.shouldKeepAlive = false;
    outgoing.assignSocket(socket);
    const flow = () => outgoing.emit('drain');
    socket.on('drain', flow);
    const refused = () => socket.setTimeout(refusalMs);
    outgoing.once('prefinish', refused);
    const end = () => socket.destroySoon();
    outgoing.once('finish', end);

    let isTaken = false;
    const upgrade: Upgrade = {
      isTaken: () => isTaken,
      take() {
        isTaken = true;
        // The handler's own response goes to a response object without a connection, and is discarded.
        outgoing.off('prefinish', refused);
        outgoing.off('finish', end);
        outgoing.detachSocket(socket);
        socket.off('drain', flow);
        socket.setTimeout(0);
        socket.off('timeout', broken);
        return { socket, head };
      },
    };
    const listener = getRequestListener((request, env) =>
      app.fetch(request, { ...(env as HttpBindings), upgrade } satisfies HttpEnv['Bindings']),
    );
    void listener(incoming, outgoing);
  });

  return () => {
    for (const socket of open) socket.destroy();
  };
};
