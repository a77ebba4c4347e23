import type { MiddlewareHandler } from 'hono';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Env } from './env.ts';
import { sentStatus } from './status.ts';

/** The gateway's Prometheus series. Labels are patterns and codes, never ids or paths. */
export const createMetrics = (countBoxes: () => Promise<Record<string, number>>) => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Histogram({
    name: 'codebox_http_request_duration_seconds',
    help: 'Time to the response headers, by route pattern.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
    registers,
  });
  const executions = new Counter({
    name: 'codebox_executions_total',
    help: 'Executions that ended, by status.',
    labelNames: ['status', 'language'],
    registers,
  });
  const executionSeconds = new Histogram({
    name: 'codebox_execution_duration_seconds',
    help: 'Run time of executions in their kernel.',
    buckets: [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3600],
    registers,
  });
  const starts = new Histogram({
    name: 'codebox_box_start_seconds',
    help: 'Time from the request for a box until it is ready.',
    labelNames: ['kind'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    registers,
  });
  const reaped = new Counter({
    name: 'codebox_boxes_reaped_total',
    help: 'Boxes ended by the reaper, by cause.',
    labelNames: ['cause'],
    registers,
  });
  const orphans = new Counter({
    name: 'codebox_orphans_total',
    help: 'Instances without a row and rows without an instance, found and mended.',
    labelNames: ['kind'],
    registers,
  });
  new Gauge({
    name: 'codebox_boxes',
    help: 'Boxes that have not ended, by state.',
    labelNames: ['state'],
    registers,
    async collect() {
      // Without a database the other series are still worth having.
      const counts = await countBoxes().catch(() => ({}));
      this.reset();
      for (const [state, n] of Object.entries(counts)) this.set({ state }, n);
    },
  });

  const middleware: MiddlewareHandler<Env> = async (c, next) => {
    const startedAt = performance.now();
    await next();
    const labels = { method: c.req.method, route: c.get('route') ?? 'none', status: sentStatus(c) };
    requests.observe(labels, (performance.now() - startedAt) / 1000);
  };

  return { registry, middleware, executions, executionSeconds, starts, reaped, orphans };
};

export type Metrics = ReturnType<typeof createMetrics>;
