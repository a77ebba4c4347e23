import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { createRequestMetrics } from '../../../http/server/request-metrics.ts';
import { addDatabaseMetrics, type DatabaseState } from './database-metrics.ts';
import { createExecutionMetrics } from './execution-metrics.ts';
import { withinScrape } from './scrape.ts';

export interface MetricsOptions {
  /** Boxes that have not ended, by state. */
  countBoxes: () => Promise<Record<string, number>>;
  database: DatabaseState;
  /** The languages that the configuration names; any other one counts as `other`. */
  languages: Iterable<string>;
}

/**
 * The gateway's Prometheus series. Labels are patterns, codes and names from the configuration: never ids or paths, never text that a
 * caller or a box chose.
 */
export const createMetrics = ({ countBoxes, database, languages }: MetricsOptions) => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  addDatabaseMetrics(registry, database);
  const reaps = new Counter({
    name: 'codebox_reaps_total',
    help: 'Boxes ended by the reaper, by cause.',
    labelNames: ['cause'],
    registers,
  });
  const leaks = new Counter({
    name: 'codebox_leaks_total',
    help: 'Instances without a row and rows without an instance, found and repaired.',
    labelNames: ['kind'],
    registers,
  });
  const sweeps = new Histogram({
    name: 'codebox_sweep_seconds',
    help: 'Time of the sweeps that end overdue boxes, fill pools and reconcile, without the work that they begin.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    registers,
  });
  const driverCalls = new Histogram({
    name: 'codebox_driver_call_seconds',
    help: 'Calls of the driver that creates and destroys instances, by outcome: ok, or the code of the error.',
    labelNames: ['driver', 'call', 'outcome'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    registers,
  });
  const driverUp = new Gauge({
    name: 'codebox_driver_up',
    help: 'Whether the backend of the driver responds to this gateway: 0 while it does not.',
    registers,
  });
  driverUp.set(1);
  const boxForks = new Counter({
    name: 'codebox_box_forks_total',
    help: 'Box servers forked from the parent of a host, by outcome: ok, or failed, after which the box starts its own.',
    labelNames: ['outcome'],
    registers,
  });
  const boxServerErrors = new Counter({
    name: 'codebox_box_server_errors_total',
    help: 'Failed calls of box servers, by kind: unreachable, timeout, bad_response.',
    labelNames: ['kind'],
    registers,
  });
  const rests = new Histogram({
    name: 'codebox_rest_seconds',
    help: 'Time of tasks that put boxes to rest and bring them back, by task: pause, resume, hibernate, restore, …',
    labelNames: ['task'],
    buckets: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 300],
    registers,
  });
  new Gauge({
    name: 'codebox_boxes',
    help: 'Boxes that have not ended, by state; all gateways of a deployment report the same value.',
    labelNames: ['state'],
    registers,
    async collect() {
      // Without the database the other series are still useful.
      const counts = await withinScrape(countBoxes()).catch(() => ({}));
      this.reset();
      for (const [state, n] of Object.entries(counts)) this.set({ state }, n);
    },
  });

  return {
    registry,
    middleware: createRequestMetrics(registry),
    executionEnded: createExecutionMetrics(registry, languages),
    rests,
    reaps,
    leaks,
    sweeps,
    driverCalls,
    driverUp,
    boxForks,
    boxServerErrors,
  };
};

export type Metrics = ReturnType<typeof createMetrics>;
