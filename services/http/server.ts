import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import type { HttpEnv } from './env.ts';
import { type HttpApp, isWebSocketRequest, serveUpgrades } from './upgrade.ts';

export interface HttpServer {
  port: number;
  /** Takes no new connections, lets requests end for `graceMs`, then cuts what is left. */
  close(graceMs: number): Promise<void>;
}

const headersTimeoutMs = 10_000;
const maxConnections = 10_000;
/** What waits for readers is in the memory of all. */
const unreadMs = 60_000;

/**
 * Serves the application on `host:port` (port 0 takes a free one). A reader that takes nothing of what waits for it for `unreadMs`
 * is cut off. Rejects when the address is taken.
 */
export const listen = async (
  app: HttpApp,
  host: string,
  port: number,
  timeouts = { unreadMs },
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
    created.once('error', failed);
  });
  server.maxConnections = maxConnections;
  server.on('request', ({ socket }, response) => {
    // It fires when nothing has moved on the connection; whoever waits for an answer may do so for long.
    response.setTimeout(timeouts.unreadMs, () => {
      if (socket.writableLength > 0) socket.destroy();
    });
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
