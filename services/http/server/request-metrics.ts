import type { Context, MiddlewareHandler } from 'hono';
import { Gauge, Histogram, type Registry } from 'prom-client';
import type { HttpEnv } from '../env.ts';
import { sentStatus } from './status.ts';

const noRoute = 'none';

/** Middleware that counts requests, and open streams and WebSockets, by route. */
export const createRequestMetrics = <E extends HttpEnv>(registry: Registry): MiddlewareHandler<E> => {
  const registers = [registry];
  const requests = new Histogram({
    name: 'codebox_http_request_duration_seconds',
    help: 'Time to the response headers, by route pattern.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
    registers,
  });
  const labelNames = ['route'];
  const streams = new Gauge({ name: 'codebox_open_streams', help: 'Event streams being read.', labelNames, registers });
  const sockets = new Gauge({ name: 'codebox_open_sockets', help: 'WebSockets that are open.', labelNames, registers });

  /** Counts what stays open after the response, until its connection is done. */
  const countOpen = (c: Context<E>, route: string) => {
    const { incoming, outgoing, upgrade } = c.env ?? {};
    const isSocket = upgrade?.isTaken() ?? false;
    if (!isSocket && !c.get('isStream')) return;
    const [gauge, connection] = isSocket ? [sockets, incoming?.socket] : [streams, outgoing];
    if (!connection || connection.destroyed) return;
    gauge.inc({ route });
    connection.once('close', () => gauge.dec({ route }));
  };

  return async (c, next) => {
    const startedAt = performance.now();
    await next();
    const route = c.get('route') ?? noRoute;
    requests.observe({ method: c.req.method, route, status: sentStatus(c) }, (performance.now() - startedAt) / 1000);
    countOpen(c, route);
  };
};
