import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ClaimKind } from '../../boxes/life/lifecycle.ts';
import { withinScrape } from './scrape.ts';

export interface PoolState {
  /** The names of all templates. */
  templates: Iterable<string>;
  /** How much memory all instances may use together at most, in MiB. */
  ceilingMb: number;
  /** Instances that belong to nobody, by template and state, how many there are to be, and what all may use of memory. */
  census: () => Promise<{
    found: { template: string | null; state: string; n: number }[];
    wanted: { template: string; size: number }[];
    promisedMb: number;
  }>;
  /** How many boxes wait for room. */
  countWaiting: () => Promise<number>;
}

const MiB = 1024 * 1024;
const kinds: readonly ClaimKind[] = ['warm', 'cold', 'queued', 'refused', 'failed'];

/** Series of how boxes get their instances. What the database tells is the same from all gateways of a deployment. */
export const createPoolMetrics = (registry: Registry, state: PoolState) => {
  const { templates, census, countWaiting } = state;
  const registers = [registry];
  const claims = new Counter({
    name: 'codebox_claims_total',
    help: 'Wishes for a box: met at once by a warm or a cold start, queued for room and then met, refused for want of room, or failed.',
    labelNames: ['kind', 'template'],
    registers,
  });
  // A series that begins with its first event does not show that one as an increase.
  for (const template of templates) for (const kind of kinds) claims.inc({ kind, template }, 0);
  const claimSeconds = new Histogram({
    name: 'codebox_claim_seconds',
    help: 'Time from the request for a box until it is ready, or refused.',
    labelNames: ['kind'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    registers,
  });
  const breaker = new Gauge({
    name: 'codebox_pool_breaker_open',
    help: 'Whether this gateway pauses filling a pool because what it tried failed.',
    labelNames: ['template'],
    registers,
  });
  const unfit = new Counter({
    name: 'codebox_pool_unfit_total',
    help: 'Warm instances that turned out not to be fit when they were claimed.',
    registers,
  });
  let asked: Promise<Awaited<ReturnType<PoolState['census']>> | undefined> | undefined;
  /** The series are of one census: those of a scrape are collected together. */
  const look = () => {
    asked ??= withinScrape(census())
      .catch(() => undefined)
      .finally(() => {
        asked = undefined;
      });
    return asked;
  };
  new Gauge({
    name: 'codebox_pool_target',
    help: 'Warm instances that a pool is to have.',
    labelNames: ['template'],
    registers,
    async collect() {
      const wanted = (await look())?.wanted ?? [];
      this.reset();
      for (const { template, size } of wanted) this.set({ template }, size);
    },
  });
  new Gauge({
    name: 'codebox_pool_instances',
    help: 'Instances that belong to nobody, by the template they were made from: creating, warm, destroying.',
    labelNames: ['template', 'state'],
    registers,
    async collect() {
      // Without a database the other series are still worth having.
      const { found, wanted } = (await look()) ?? { found: [], wanted: [] };
      this.reset();
      for (const { template } of wanted) this.set({ template, state: 'warm' }, 0);
      for (const { template, state, n } of found) if (template !== null) this.set({ template, state }, n);
    },
  });
  new Gauge({
    name: 'codebox_memory_promised_bytes',
    help: 'Memory that all instances may use together, those that are being made or destroyed included.',
    registers,
    async collect() {
      const census = await look();
      if (census) this.set(census.promisedMb * MiB);
    },
  });
  new Gauge({
    name: 'codebox_memory_ceiling_bytes',
    help: 'Memory that instances may be promised at most.',
    registers,
  }).set(state.ceilingMb * MiB);
  new Gauge({
    name: 'codebox_queue_waiting',
    help: 'Boxes that wait for room.',
    registers,
    async collect() {
      const waiting = await withinScrape(countWaiting()).catch(() => undefined);
      if (waiting !== undefined) this.set(waiting);
    },
  });
  return {
    claimed(kind: ClaimKind, template: string, ms: number): void {
      claims.inc({ kind, template });
      claimSeconds.observe({ kind }, ms / 1000);
    },
    breaker,
    unfit,
  };
};
