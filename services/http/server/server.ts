import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import { ConfigurationError } from '../../configuration-error.ts';
import type { HttpEnv } from '../env.ts';
import { type HttpApp, isWebSocketRequest, serveUpgrades } from './upgrade.ts';

export interface HttpServer {
  port: number;
  /** Accepts no new connections, lets requests end for `graceMs`, then cuts the rest. */
  close(graceMs: number): Promise<void>;
}

const headersTimeoutMs = 10_000;
const leastConnections = 10_000;
/** Unread data takes memory of the process. */
const defaultUnreadMs = 60_000;
/** Node warns of more listeners to one event of a response. */
const mostListeners = 20;

/** What a connection has taken over to send, and what of it still waits. */
interface Queue {
  bytesWritten: number;
  writeQueueSize: number;
}

interface ServerLimits {
  /** How long a reader may read nothing while data waits for it. */
  unreadMs?: number;
  /** How many requests one caller may have open; there are connections for at least two such callers. */
  openRequests?: number;
}

/**
 * Disconnects a reader that takes nothing for `unreadMs` while data waits for it. A timeout of the socket is no use here: anything that
 * the client sends, even a blank line, postpones it.
 */
const cutUnread = (socket: Socket, response: ServerResponse, unreadMs: number): void => {
  let taken = -1;
  let since = 0;
  const timer = setInterval(() => {
    // Only the handle, which has no public name, knows how much of a long write is left.
    const { bytesWritten = 0, writeQueueSize = 0 } = (socket as { _handle?: Partial<Queue> | null })._handle ?? {};
    const now = performance.now();
    if (socket.writableLength === 0 || bytesWritten - writeQueueSize !== taken) since = now;
    else if (now - since >= unreadMs) socket.destroy();
    taken = bytesWritten - writeQueueSize;
  }, unreadMs / 4);
  response.once('close', () => clearInterval(timer));
};

/**
 * Serves the application on `host:port` (port 0 picks a free one). A reader that reads nothing for `unreadMs` while
 * data waits for it is disconnected. Throws a ConfigurationError when the address is in use.
 */
export const listen = async (
  app: HttpApp,
  host: string,
  port: number,
  { unreadMs = defaultUnreadMs, openRequests = 0 }: ServerLimits = {},
): Promise<HttpServer> => {
  const server = await new Promise<Server>((listening, failed) => {
    const created = serve(
      {
        fetch: (request, env) => app.fetch(request, env as HttpEnv['Bindings']),
        hostname: host,
        port,
        serverOptions: {
          headersTimeout: headersTimeoutMs,
          // A large upload may take its time; bodies have deadlines of their own.
          requestTimeout: 0,
          connectionsCheckingInterval: 5000,
          shouldUpgradeCallback: isWebSocketRequest,
        },
      },
      () => listening(created as Server),
    );
    created.once('error', (error: NodeJS.ErrnoException) => {
      const inUse = `Port ${port} of ${host} is in use: stop what listens there, or configure another port.`;
      failed(error.code === 'EADDRINUSE' ? new ConfigurationError(inUse) : error);
    });
  });
  // A connection that cannot be accepted, for want of descriptors, must not end the process.
  server.on('error', (error) => process.emitWarning(error));
  server.maxConnections = Math.max(leastConnections, 2 * openRequests);
  server.on('request', ({ socket }, response) => {
    // Many parts of a request wait for the end of its response.
    response.setMaxListeners(mostListeners);
    cutUnread(socket, response, unreadMs);
  });
  const cutUpgraded = serveUpgrades(server, app);
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : port,
    async close(graceMs) {
      const closed = new Promise<void>((done) => server.close(() => done()));
      server.closeIdleConnections();
      const timer = new AbortController();
      await Promise.race([closed, sleep(graceMs, undefined, { signal: timer.signal }).catch(() => {})]);
      timer.abort();
      server.closeAllConnections();
      cutUpgraded();
      await closed;
    },
  };
};
