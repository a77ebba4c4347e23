import { type Environment, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { SmallFile } from '../../box-server/client.ts';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { BindableLimits, Binding, Driver, NetworkPolicy } from '../../drivers/driver.ts';
import type { BoxRow, Startup } from '../../store/box/boxes.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import type { NewBox } from '../../store/supply/allocation.ts';
import type { Capacity } from '../../store/supply/capacity.ts';
import type { Wanted } from '../../store/supply/waiting.ts';
import { sampleOne } from '../usage/sample.ts';
import type { Instances } from './instances.ts';
import type { WarmPool } from './pool.ts';
import type { Queue } from './queue.ts';
import { waitUntilServing } from './serving.ts';
import type { Starts } from './starts.ts';
import type { Template } from './templates.ts';

export interface AllocationOptions {
  driver: Driver;
  store: Pick<Store, 'allocation' | 'boxes' | 'instances'>;
  connections: BoxConnections;
  instances: Instances;
  background: Background;
  pool: WarmPool;
  queue: Queue;
  ceiling: Capacity;
  starts: Starts;
  /** Told of a warm instance that could not be made a box's own. */
  onUnfit: (error: unknown) => void;
}

/** What now embodies a box. */
export interface Body {
  instance: { id: string; address: string };
  server: BoxConnection;
  /** What `furnish` answered. */
  furnished: Promise<void>;
  kind: Startup['kind'];
  counted: Counted;
}

/** CPU time that an instance had used when it was handed out; null while that is not known. */
interface Counted {
  cpuMs: number | null;
}

/** What a box has from its first moment. */
export interface Belongings {
  env: Environment;
  /** Small ones, which go along with the environment. */
  files: readonly SmallFile[];
  /** Puts other files into the box while its environment is bound; the network is its own by then. */
  furnish: (server: BoxConnection) => Promise<void>;
}

interface Seat {
  /** A warm one has an address; another one is to be made. */
  instance: InstanceRow;
  hasWaited: boolean;
}

const probeMs = 1000;
const bindMs = 10_000;
const sampleMs = 5000;
/** After so many warm instances that were not fit, a box gets one made for it. */
const warmTries = 3;
/** A box with less than this would be smaller than what a warm instance has already. */
const leastBoundMemoryMb = 384;

/**
 * From the wish for a box to an instance that is its own: a warm one, bound to what the box is to be, or a new one, or what
 * becomes free first. A warm instance that does not answer or does not take a change is destroyed, never handed out.
 */
export const createAllocation = (options: AllocationOptions) => {
  const { driver, store, connections, instances, background, pool, queue, ceiling, starts } = options;

  /** What has to change in a warm instance of the template; undefined when that cannot be done while it runs. */
  const changesFor = (template: Template, box: Pick<BoxRow, 'limits' | 'network'>): Binding | undefined => {
    const { bind } = driver.capabilities;
    if (box.limits.diskMb !== template.limits.diskMb) return undefined;
    const limits: Partial<BindableLimits> = {};
    for (const name of ['cpus', 'memoryMb', 'pids'] as const) {
      if (box.limits[name] === template.limits[name]) continue;
      if (!bind.limits.includes(name)) return undefined;
      limits[name] = box.limits[name];
    }
    if ((limits.memoryMb ?? leastBoundMemoryMb) < leastBoundMemoryMb) return undefined;
    const change: Binding = Object.keys(limits).length > 0 ? { limits } : {};
    if (box.network === template.network) return change;
    const canChange = [box.network, template.network].every((one: NetworkPolicy) => bind.networks.includes(one));
    return canChange ? { ...change, network: box.network } : undefined;
  };

  const wantedFor = (template: Template, box: Pick<BoxRow, 'limits' | 'network'>): Wanted => {
    const generation = changesFor(template, box) && pool.generationOf(template);
    const { name, limits } = template;
    return { site: driver.site, template: name, generation: generation ?? null, memoryMb: limits.memoryMb };
  };

  /** A row of an instance to be made for a box, or what becomes free first when there is no room. */
  const makeOrWait = async (box: BoxRow, wanted: Wanted): Promise<Seat> => {
    const row = await store.allocation.reserve(box, { id: newId('i'), site: driver.site }, ceiling);
    return row ? { instance: row, hasWaited: false } : { instance: await queue.wait(box, wanted), hasWaited: true };
  };

  const seat = async (box: BoxRow, wanted: Wanted): Promise<InstanceRow> => {
    const warm = wanted.generation === null ? undefined : await store.allocation.claimFor(box, wanted, ceiling);
    return warm ?? (await makeOrWait(box, wanted)).instance;
  };

  /** From now on an instance counts for its box. Nobody waits for that: it may take longer than all the rest. */
  const handOut = ({ id: box, limits }: BoxRow, id: string): Counted => {
    const counted: Counted = { cpuMs: null };
    background.run('begin to count the use of a box', async () => {
      const used = await sampleOne(driver, id, sampleMs);
      if (!used) return;
      const cpuMs = Math.round(used.cpuMs);
      counted.cpuMs = cpuMs;
      const hasBudget = limits.cpuSeconds !== undefined;
      await Promise.all([instances.handOut(id, cpuMs), hasBudget && store.boxes.noteStartup(box, id, cpuMs)]);
    });
    return counted;
  };

  /** Begins to furnish; how that went is for the one who awaits it, if anybody comes to do so. */
  const begin = (server: BoxConnection, { furnish }: Belongings): Promise<void> => {
    const furnished = furnish(server);
    furnished.catch(() => {});
    return furnished;
  };

  /** Makes the instance of a row. */
  const make = async (box: BoxRow, id: string, template: Template, belongings: Belongings): Promise<Body> => {
    const { limits, network } = box;
    const { address, server } = await starts(async (signal) => {
      const spec = { id, token: connections.tokenOf(id), image: template.image, limits, network };
      return await waitUntilServing({ driver, connections }, await driver.create(spec, signal), signal);
    });
    const counted = handOut(box, id);
    const furnished = begin(server, belongings);
    const { env, files } = belongings;
    if (Object.keys(env).length + files.length > 0) await server.bind({ env, files });
    return { instance: { id, address }, server, furnished, kind: 'cold', counted };
  };

  /** Makes a warm instance this box's own, and makes sure that it is. */
  const bind = async (
    box: BoxRow,
    instance: { id: string; address: string },
    template: Template,
    belongings: Belongings,
  ): Promise<Body> => {
    const { env, files } = belongings;
    const server = connections.to(instance.id, instance.address);
    const change = changesFor(template, box) ?? {};
    const isChanged = Object.keys(change).length > 0;
    const signal = AbortSignal.timeout(bindMs);
    const counted = handOut(box, instance.id);
    // What it can do at the same time costs its user nothing: a claim takes milliseconds.
    const probe = server.health(AbortSignal.timeout(probeMs));
    const changed = isChanged && Promise.all([probe, driver.bind(instance.id, change, signal)]);
    // What is fetched or started comes by the network of the box, and what is forked needs the memory for it.
    if (change.network !== undefined || template.limits.memoryMb < leastBoundMemoryMb) await changed;
    const furnished = begin(server, belongings);
    await Promise.all([
      probe,
      changed,
      (isChanged || Object.keys(env).length + files.length > 0) &&
        server.bind({ env, files, ...(change.network !== undefined && { network: change.network }) }),
    ]);
    return { instance, server, furnished, kind: 'warm', counted };
  };

  /** Not fit: from now on it is not the box's, and nobody waits for its end. */
  const discard = async ({ id }: InstanceRow, error: unknown): Promise<void> => {
    options.onUnfit(error);
    await store.instances.abandon(id);
    background.run('end a warm instance that was not fit', () => instances.destroy(id));
  };

  return {
    handOut,

    /**
     * Writes a box that is being made, with an instance as soon as there is one. Undefined when the box's user already has a living
     * reusable one. Throws `unavailable`, and leaves nothing, when there was no room in time.
     */
    async begin(plan: NewBox, template: Template): Promise<(Seat & { box: BoxRow }) | undefined> {
      const wanted = wantedFor(template, plan);
      const begun = await store.allocation.claim(plan, wanted, ceiling);
      if (!begun) return undefined;
      const { box, instance } = begun;
      try {
        return { box, ...(instance ? { instance, hasWaited: false } : await makeOrWait(box, wanted)) };
      } catch (error) {
        await store.boxes.withdraw(box.id);
        throw error;
      } finally {
        pool.taken();
      }
    },

    /**
     * Gives a box that has none an instance that is its own: limits, network and environment are in force when this answers, and
     * `furnish` has begun. The row of the instance stays `creating` until the box is said to be ready. Throws `unavailable` when there was no room in time or
     * none could be made; the box then has no instance.
     */
    async embody(box: BoxRow, template: Template, belongings: Belongings, first?: InstanceRow): Promise<Body> {
      const wanted = wantedFor(template, box);
      const isChanged = Object.keys(changesFor(template, box) ?? {}).length > 0;
      let instance = first ?? (await seat(box, wanted));
      for (let tries = 1; ; tries++) {
        const { id, address } = instance;
        if (address === null) {
          return await make(box, id, template, belongings).catch(async (error: unknown) => {
            await instances.abandon(id);
            throw error;
          });
        }
        try {
          return await bind(box, { id, address }, template, belongings);
        } catch (error) {
          await discard(instance, error);
          if (hasCode(error, 'invalid_request')) throw error;
        }
        // What one did not take, the next would not either.
        const isEnough = isChanged || tries === warmTries;
        instance = await seat(box, isEnough ? { ...wanted, generation: null } : wanted);
        pool.taken();
      }
    },
  };
};

export type Allocation = ReturnType<typeof createAllocation>;
