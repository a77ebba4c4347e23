import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ClaimOutcome } from '../../boxes/creation/creation.ts';
import { withinScrape } from './scrape.ts';

export interface PoolState {
  /** The names of all templates. */
  templates: Iterable<string>;
  /** The most memory that all instances together may use, in MiB. */
  ceiling: { readonly memoryMb: number };
  /** Unclaimed instances by template and state, the target size of each pool, and the memory that all instances may use. */
  census: () => Promise<{
    found: { template: string | null; state: string; n: number }[];
    wanted: { template: string; size: number }[];
    promisedMb: number;
  }>;
  /** The number of boxes that wait for capacity. */
  countWaiting: () => Promise<number>;
}

const MiB = 1024 * 1024;
/** The label of all templates that tenants have built; no configured one has such a name. */
const built = '_built';
const kinds: readonly ClaimOutcome[] = ['warm', 'cold', 'queued', 'refused', 'failed'];

/** Adds the series of how boxes get their instances. Values from the database are the same in all gateways of a deployment. */
export const createPoolMetrics = (registry: Registry, state: PoolState) => {
  const { census, countWaiting } = state;
  const templates = new Set(state.templates);
  const labelOf = (template: string) => (templates.has(template) ? template : built);
  const registers = [registry];
  const claims = new Counter({
    name: 'codebox_claims_total',
    help: 'Requests for a box, by outcome: warm or cold start at once, queued for capacity and then started, refused for lack of it, or failed.',
    labelNames: ['kind', 'template'],
    registers,
  });
  // Prometheus does not count the first event of a series as an increase unless the series exists before.
  for (const template of templates) for (const kind of kinds) claims.inc({ kind, template }, 0);
  const claimSeconds = new Histogram({
    name: 'codebox_claim_seconds',
    help: 'Time from the request for a box until it is ready or refused.',
    labelNames: ['kind'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    registers,
  });
  const breaker = new Gauge({
    name: 'codebox_pool_breaker_open',
    help: 'Whether this gateway pauses filling a pool after failed attempts.',
    labelNames: ['template'],
    registers,
  });
  const unfit = new Counter({
    name: 'codebox_pool_unfit_total',
    help: 'Warm instances that turned out to be unusable when they were claimed.',
    registers,
  });
  let pending: Promise<Awaited<ReturnType<PoolState['census']>> | undefined> | undefined;
  /** The series of one scrape share one census. */
  const currentCensus = () => {
    pending ??= withinScrape(census())
      .catch(() => undefined)
      .finally(() => {
        pending = undefined;
      });
    return pending;
  };
  new Gauge({
    name: 'codebox_pool_target',
    help: 'Target number of warm instances in a pool.',
    labelNames: ['template'],
    registers,
    async collect() {
      const wanted = (await currentCensus())?.wanted ?? [];
      this.reset();
      for (const { template, size } of wanted) this.inc({ template: labelOf(template) }, size);
    },
  });
  new Gauge({
    name: 'codebox_pool_instances',
    help: 'Instances that belong to no box, by template and state: creating, warm, destroying.',
    labelNames: ['template', 'state'],
    registers,
    async collect() {
      // Without the database the other series are still useful.
      const { found, wanted } = (await currentCensus()) ?? { found: [], wanted: [] };
      this.reset();
      for (const { template } of wanted) this.set({ template: labelOf(template), state: 'warm' }, 0);
      for (const { template, state, n } of found)
        if (template !== null) this.inc({ template: labelOf(template), state }, n);
    },
  });
  new Gauge({
    name: 'codebox_memory_promised_bytes',
    help: 'Memory that all instances together may use, including those that are being created or destroyed.',
    registers,
    async collect() {
      const found = await currentCensus();
      if (found) this.set(found.promisedMb * MiB);
    },
  });
  new Gauge({
    name: 'codebox_memory_ceiling_bytes',
    help: 'The most memory that may be promised to instances.',
    registers,
    collect() {
      this.set(state.ceiling.memoryMb * MiB);
    },
  });
  new Gauge({
    name: 'codebox_queue_waiting',
    help: 'Boxes that wait for capacity.',
    registers,
    async collect() {
      const waiting = await withinScrape(countWaiting()).catch(() => undefined);
      if (waiting !== undefined) this.set(waiting);
    },
  });
  return {
    claimed(kind: ClaimOutcome, template: string, ms: number): void {
      claims.inc({ kind, template });
      claimSeconds.observe({ kind }, ms / 1000);
    },
    breaker,
    unfit,
  };
};

export type PoolMetrics = ReturnType<typeof createPoolMetrics>;
