import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Capacity } from '../../store/supply/capacity.ts';
import type { PoolPlan, PoolStore } from '../../store/supply/pools.ts';
import { type Breaker, createBreaker } from './breaker.ts';
import type { Instances } from './instances.ts';
import { waitUntilServing } from './serving.ts';
import type { Starts } from './starts.ts';
import type { Template } from './templates.ts';

export interface PoolOptions {
  driver: Driver;
  pools: PoolStore;
  connections: BoxConnections;
  background: Background;
  templates: Map<string, Template>;
  ceiling: Capacity;
  starts: Starts;
  /** What is being made for longer than this is not made any more. */
  givenUpMs: number;
  /** How many warm instances this gateway makes at once. */
  startsAtOnce: number;
  instances: Instances;
  /** There is one more to claim. */
  onWarm: () => void;
  /** A pool cannot be filled for now, or can again. */
  onBreaker: (change: { template: string; isOpen: boolean; pauseMs: number; error?: unknown }) => void;
}

interface Pool {
  template: Template;
  /** Undefined until the driver has told what its image is. */
  generation: string | undefined;
  breaker: Breaker;
}

const batch = 16;
const probeMs = 5000;
const revisionMs = 5000;
/** What is `creating` for longer than it may take and this has been given up, by one who could not say so. */
const graceMs = 30_000;
/** What the one who claimed has of the machine for the first result before the place is filled again. */
const refillDelayMs = 100;

/**
 * Keeps warm instances of every template that wants some: a box server that serves, with a kernel that has proved that it works.
 * Any number of gateways fill the same pools, whose sizes and rows are in PostgreSQL. What is not ready any more is replaced; what
 * was made from another template or image is drained while it is warm, and never when it has become a box.
 */
export const createPool = (options: PoolOptions) => {
  const { driver, connections, background, templates, ceiling, starts, givenUpMs, startsAtOnce, instances } = options;
  const isUsable = (template: Template) => !template.hasOwnImage || driver.capabilities.images;
  const pools = new Map<string, Pool>(
    [...templates.values()]
      .filter((template) => template.warm > 0 && isUsable(template))
      .map((template) => [template.name, { template, generation: undefined, breaker: createBreaker() }]),
  );
  let workers = 0;
  let isDue = false;
  let isStarted = false;
  let isStopped = false;
  let probedUpTo = '';

  const currentGeneration = async ({ template }: Pool): Promise<string> => {
    const { image, limits, network, languages } = template;
    const revision = await driver.revision(image, AbortSignal.timeout(revisionMs));
    const { cpus, memoryMb, diskMb, pids } = limits;
    const made = [driver.kind, image, revision, cpus, memoryMb, diskMb, pids, network, languages[0]];
    return createHash('sha256').update(JSON.stringify(made)).digest('hex').slice(0, 32);
  };

  const plan = ({ template, generation = '' }: Pool): PoolPlan => ({
    template: template.name,
    generation,
    size: template.warm,
  });

  /** Learns what instances would be made from now. */
  const look = async (): Promise<void> => {
    for (const pool of pools.values()) {
      const generation = await currentGeneration(pool);
      if (generation === pool.generation) continue;
      pool.generation = generation;
      close(pool);
      if (isStarted) await options.pools.renew(driver.site, plan(pool));
    }
  };

  /** It works, or what did not work is not what would be made now. */
  const close = ({ template, breaker }: Pool) => {
    if (breaker.isOpen()) options.onBreaker({ template: template.name, isOpen: false, pauseMs: 0 });
    breaker.succeed();
  };

  /** The next one to make, its row written; undefined when there is nothing to do for now. */
  const reserve = async (): Promise<{ id: string; pool: Pool } | undefined> => {
    for (const { template: name, generation } of await options.pools.lacking(driver.site)) {
      const pool = pools.get(name);
      // Another gateway knows it otherwise, and is the one to fill it.
      if (pool === undefined || pool.generation !== generation || !pool.breaker.enter()) continue;
      const id = newId('i');
      const hasRoom = await options.pools
        .reserve(driver.site, { template: name, generation, memoryMb: pool.template.limits.memoryMb }, id, ceiling)
        .catch((error: unknown) => {
          pool.breaker.leave();
          throw error;
        });
      if (hasRoom) return { id, pool };
      pool.breaker.leave();
    }
    return undefined;
  };

  const make = async (id: string, pool: Pool): Promise<void> => {
    const { template, breaker } = pool;
    try {
      const { image, limits, network, languages } = template;
      const address = await starts(async (signal) => {
        const spec = { id, token: connections.tokenOf(id), image, limits, network, takesNetwork: true };
        const serving = await waitUntilServing({ driver, connections }, await driver.create(spec, signal), signal);
        await serving.server.warm(languages.slice(0, 1), signal);
        return serving.address;
      }, background.signal);
      if (!(await options.pools.admit(id, address))) throw new Error('it was given up meanwhile');
      close(pool);
      options.onWarm();
    } catch (error) {
      const pauseMs = breaker.fail();
      options.onBreaker({ template: template.name, isOpen: true, pauseMs, error });
      await instances.abandon(id);
    }
  };

  const work = async () => {
    while (!isStopped) {
      isDue = false;
      const next = await reserve();
      if (next) await make(next.id, next.pool);
      // Asked again meanwhile: there may be something to do now.
      else if (!isDue) return;
    }
  };

  /** Fills up what is missing, a bounded number at a time. */
  const refill = () => {
    isDue = true;
    while (workers < startsAtOnce && !isStopped) {
      workers += 1;
      background.run('fill a pool', () =>
        work().finally(() => {
          workers -= 1;
        }),
      );
    }
  };

  const each = (rows: InstanceRow[], what: string, task: (row: InstanceRow) => Promise<void>) =>
    Promise.all(rows.map((row) => background.attempt(what, () => task(row))));

  const drain = async () => {
    for (let drained = batch; drained === batch; ) {
      const gone = await options.pools.drain(driver.site, batch, givenUpMs + graceMs);
      drained = gone.length;
      await each(gone, 'drain a pool', ({ id }) => instances.destroy(id));
    }
  };

  /** Asks some of them, page by page, whether they could still be boxes. */
  const probe = async () => {
    const page = await options.pools.warm(driver.site, probedUpTo, batch);
    probedUpTo = page.length < batch ? '' : (page.at(-1)?.id ?? '');
    await each(page, 'replace a warm instance', async (instance) => {
      if (await isServing(instance)) return;
      if (await options.pools.discard(instance.id)) await instances.destroy(instance.id);
    });
  };

  const isServing = async ({ id, address }: InstanceRow): Promise<boolean> => {
    if (address === null) return false;
    return await connections
      .to(id, address)
      .health(AbortSignal.timeout(probeMs))
      .then(
        () => true,
        () => false,
      );
  };

  return {
    /** The generation of the warm instances that a box of this template may get; undefined when it keeps none. */
    generationOf: (template: Template): string | undefined => pools.get(template.name)?.generation,

    /** An instance was claimed: fills its place again, a moment later. */
    taken(): void {
      if (pools.size === 0 || isDue) return;
      isDue = true;
      background.run('fill a pool', async () => {
        await sleep(refillDelayMs, undefined, { signal: background.signal });
        refill();
      });
    },

    /** Makes the pools of this gateway those of the deployment, and begins to fill them. */
    async start(): Promise<void> {
      await background.attempt('look at the images of the pools', look);
      const known = [...pools.values()].filter((pool) => pool.generation !== undefined);
      await options.pools.publish(driver.site, [...pools.keys()], known.map(plan));
      isStarted = true;
      refill();
    },

    /** Drains, probes and fills; for every sweep. */
    async tend(): Promise<void> {
      if (pools.size > 0) await background.attempt('look at the images of the pools', look);
      await background.attempt('drain the pools', drain);
      await background.attempt('probe the pools', probe);
      refill();
    },

    /** Makes no more. Warm instances stay, for the next gateway. */
    stop(): void {
      isStopped = true;
    },
  };
};

export type WarmPool = ReturnType<typeof createPool>;
