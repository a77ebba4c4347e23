import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { Notice } from '../../../waiting/notice.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Capacity } from '../../store/supply/capacity.ts';
import type { PoolPlan, PoolStore } from '../../store/supply/pools.ts';
import type { Due } from '../../store/upkeep.ts';
import { type Breaker, createBreaker } from './breaker.ts';
import { warmNetworkOf } from './built-templates.ts';
import type { Instances } from './instances.ts';
import type { Launch } from './launch.ts';
import type { Starts } from './starts.ts';
import { templateObstacle } from './template-obstacle.ts';
import type { Template } from './templates.ts';

export interface PoolOptions {
  driver: Driver;
  pools: PoolStore;
  connections: BoxConnections;
  background: Background;
  /** The configured templates. */
  templates: ReadonlyMap<string, Template>;
  /** The templates that tenants have built and that keep warm instances. */
  built: () => Promise<Template[]>;
  ceiling: Capacity;
  starts: Starts;
  launch: Launch;
  /** An instance that takes longer than this to start is presumed abandoned. */
  givenUpMs: number;
  /** How many warm instances this gateway starts at once. */
  startsAtOnce: number;
  instances: Instances;
  /** Published when one more instance is warm. */
  room: Pick<Notice, 'publish'>;
  /** Reports that a pool cannot be filled for now, or can be filled again. */
  onBreaker: (change: { template: string; isOpen: boolean; pauseMs: number; error?: unknown }) => void;
}

interface Pool {
  template: Template;
  /** Undefined until the driver has reported the revision of the image. */
  generation: string | undefined;
  breaker: Breaker;
}

const toPool = (template: Template): Pool => ({ template, generation: undefined, breaker: createBreaker() });

const batch = 16;
const probeMs = 5000;
/** How long a sweep waits for a batch: an instance whose host is silent takes until its deadline. */
const patienceMs = 2 * probeMs;
const revisionMs = 5000;
/** Slack beyond `givenUpMs` before a row in `creating` is presumed abandoned. */
const graceMs = 30_000;
/** Delay before refilling, so that the first run of the new box does not compete with a cold start. */
const refillDelayMs = 50;

/**
 * Keeps warm instances of every template that asks for some: each has a running box server and a tested kernel. Any number of
 * gateways fill the same pools, whose sizes and rows are in PostgreSQL. Instances that stop responding are replaced. Instances of an
 * outdated template or image are drained while they are warm, never once they belong to a box.
 */
export const createPool = (options: PoolOptions) => {
  const { driver, connections, background, templates, ceiling, starts, launch } = options;
  const { givenUpMs, startsAtOnce, instances, room } = options;
  const isUsable = (template: Template) => templateObstacle(driver, template) === undefined;
  const pools = new Map<string, Pool>(
    [...templates.values()]
      .filter((template) => template.warm > 0 && isUsable(template))
      .map((template) => [template.id, toPool(template)]),
  );
  const configured = new Set(pools.keys());
  let starting = 0;
  let isFilling = false;
  let isDue = false;
  let isStarted = false;
  let isStopped = false;
  let probedUpTo = '';

  const generationWith = (revision: string, { template }: Pool): string => {
    const { image, limits, language, parent, placement, gpus, archive } = template;
    const network = warmNetworkOf(template, driver.capabilities);
    const { cpus, memoryMb, diskMb, pids } = limits;
    const sizes = [cpus, memoryMb, diskMb, pids];
    const made = [driver.kind, image, revision, ...sizes, network, language, parent, placement, gpus, archive];
    return createHash('sha256').update(JSON.stringify(made)).digest('hex').slice(0, 32);
  };

  const plan = ({ template, generation = '' }: Pool): PoolPlan => ({
    template: template.id,
    generation,
    size: template.warm,
  });

  /** Follows the templates that tenants build and delete. */
  const updateBuilt = async (): Promise<void> => {
    const built = new Map((await options.built()).filter(isUsable).map((template) => [template.id, template]));
    const gone = [...pools.keys()].filter((id) => !configured.has(id) && !built.has(id));
    if (gone.length > 0) await options.pools.drop(driver.site, gone);
    for (const id of gone) pools.delete(id);
    for (const [id, template] of built) {
      const known = pools.get(id);
      if (known?.template.warm === template.warm && known.template.version === template.version) continue;
      pools.set(id, toPool(template));
    }
  };

  /** Finds out which generation new instances would have. */
  const updateGenerations = async (): Promise<void> => {
    const revisions = new Map<string, string>();
    for (const pool of pools.values()) {
      const { image } = pool.template;
      const revision = revisions.get(image) ?? (await driver.revision(image, AbortSignal.timeout(revisionMs)));
      revisions.set(image, revision);
      const generation = generationWith(revision, pool);
      if (generation === pool.generation) continue;
      // Written to the store before it is remembered: a remembered generation is not written again.
      if (isStarted) await options.pools.renew(driver.site, plan({ ...pool, generation }));
      pool.generation = generation;
      close(pool);
    }
  };

  /** Closes the breaker: a start succeeded, or new instances come from a new generation. */
  const close = ({ template, breaker }: Pool) => {
    if (breaker.isOpen()) options.onBreaker({ template: template.id, isOpen: false, pauseMs: 0 });
    breaker.succeed();
  };

  const start = async (id: string, pool: Pool): Promise<void> => {
    const { template, breaker } = pool;
    try {
      const { limits, language } = template;
      const network = warmNetworkOf(template, driver.capabilities);
      const address = await starts(async (signal, hold) => {
        const serving = await launch(template, { id, limits, network, takesNetwork: true }, signal, hold);
        await serving.server.warm([language], signal);
        return serving.address;
      }, background.signal);
      if (!(await options.pools.admit(id, address))) throw new Error('The instance was given up meanwhile.');
      close(pool);
      room.publish();
    } catch (error) {
      const pauseMs = breaker.fail();
      options.onBreaker({ template: template.id, isOpen: true, pauseMs, error });
      // Its admission may have been recorded although the response was lost: then it may be that of a box by now.
      if (await options.pools.discard(id)) await instances.destroy(id);
    }
  };

  /** Reserves rows of a pool for up to `count` instances to be started. */
  const reserve = async ({ template, generation = '', breaker }: Pool, count: number): Promise<string[]> => {
    const { id, limits } = template;
    const ids = Array.from({ length: count }, () => newId('i'));
    const plan = { template: id, generation, memoryMb: limits.memoryMb };
    try {
      const reserved = await options.pools.reserve(driver.site, plan, ids, ceiling);
      if (reserved.length === 0) breaker.leave();
      return reserved;
    } catch (error) {
      breaker.leave();
      throw error;
    }
  };

  /** Divides the starts that are possible now among the pools that are below their target: the configured ones, then the emptiest first. */
  const startMissing = async (): Promise<void> => {
    // Only a gateway that knows the generation fills the pool.
    const paused = [...pools].filter(([, { breaker }]) => breaker.isPaused()).map(([id]) => id);
    const below = (await options.pools.belowTarget(driver.site, [...configured], paused)).flatMap(
      ({ template, generation }) => {
        const pool = pools.get(template);
        return pool?.generation === generation ? [pool] : [];
      },
    );
    for (const [at, pool] of below.entries()) {
      const share = Math.ceil((startsAtOnce - starting) / (below.length - at));
      if (share === 0 || !pool.breaker.enter()) continue;
      const count = pool.breaker.isOpen() ? 1 : share;
      const ids = await reserve(pool, count);
      // More instances may be missing.
      if (ids.length === count) isDue = true;
      for (const id of ids) {
        starting += 1;
        background.run('fill a pool', () =>
          start(id, pool).finally(() => {
            starting -= 1;
            refill();
          }),
        );
      }
    }
  };

  /** Fills the pools, starting a bounded number of instances at a time. */
  const refill = () => {
    isDue = true;
    if (isFilling) return;
    isFilling = true;
    background.run('fill the pools', async () => {
      try {
        while (isDue && starting < startsAtOnce && !isStopped) {
          isDue = false;
          await startMissing();
        }
      } finally {
        isFilling = false;
      }
    });
  };

  const each = (rows: InstanceRow[], what: string, task: (row: InstanceRow) => Promise<void>) =>
    background.each(rows, { what, patienceMs }, task);

  const drain = async () => {
    for (let drained = batch; drained === batch; ) {
      const rows = await options.pools.drain(driver.site, batch, givenUpMs + graceMs);
      drained = rows.length;
      await each(rows, 'drain a pool', ({ id }) => instances.destroy(id));
    }
  };

  /** Checks a page of warm instances, the next one at each sweep, and replaces those that do not respond. */
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
    /** Returns the generation of the warm instances that a box of this template may get; undefined when it keeps none. */
    generationOf: ({ id, version }: Template): string | undefined => {
      const pool = pools.get(id);
      return pool?.template.version === version ? pool?.generation : undefined;
    },

    /** Refills a moment after a claim. */
    refillSoon(): void {
      if (pools.size === 0 || isDue) return;
      isDue = true;
      background.run('fill a pool', async () => {
        await sleep(refillDelayMs, undefined, { signal: background.signal });
        refill();
      });
    },

    /** Publishes the pools of this gateway as those of the site, and begins to fill them. */
    async start(): Promise<void> {
      await updateBuilt();
      await background.attempt('look at the images of the pools', updateGenerations);
      const known = [...pools.values()].filter((pool) => pool.generation !== undefined);
      await options.pools.publish(driver.site, [...pools.keys()], known.map(plan));
      isStarted = true;
      refill();
    },

    /** Drains, probes and fills the pools, at every sweep. */
    async tend({ pooled, builtPools }: Pick<Due, 'pooled' | 'builtPools'>): Promise<void> {
      if (builtPools || pools.size > configured.size)
        await background.attempt('look at the templates of the pools', updateBuilt);
      if (pools.size > 0) await background.attempt('look at the images of the pools', updateGenerations);
      if (pooled) await background.attempt('drain the pools', drain);
      if (pooled) await background.attempt('probe the pools', probe);
      if (pools.size > 0) refill();
    },

    /** Starts no more instances. Warm ones stay for the next gateway. */
    stop(): void {
      isStopped = true;
    },
  };
};

export type WarmPool = ReturnType<typeof createPool>;
