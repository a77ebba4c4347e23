import { CodeBoxError, type Environment, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { SmallFile } from '../../box-server/client.ts';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { BindableLimits, Binding, Driver, VolumeMount } from '../../drivers/driver.ts';
import type { BoxRow, Startup } from '../../store/box/boxes.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import type { NewBox } from '../../store/supply/allocation.ts';
import type { Capacity } from '../../store/supply/capacity.ts';
import type { Wanted } from '../../store/supply/waiting.ts';
import { sampleOne } from '../usage/sample.ts';
import { warmNetworkOf } from './built-templates.ts';
import type { Instances } from './instances.ts';
import type { Launch } from './launch.ts';
import type { WarmPool } from './pool.ts';
import type { Queue } from './queue.ts';
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
  launch: Launch;
  /** Reports a warm instance that could not be bound to a box. */
  onUnfit: (error: unknown) => void;
}

/** The running instance of a box, with its limits, network and environment in force. */
export interface ProvisionedInstance {
  instance: { id: string; address: string };
  server: BoxConnection;
  /** Settles as `writeFiles` does. */
  filesWritten: Promise<void>;
  kind: Startup['kind'];
  startup: StartupUsage;
}

/** CPU time that an instance had used when its box got it; null until it is measured. */
interface StartupUsage {
  cpuMs: number | null;
}

/** The initial contents of a box. */
export interface BoxContents {
  env: Environment;
  /** Small files, which are sent in one request with the environment. */
  files: readonly SmallFile[];
  /** Writes the other files while the environment is bound. The network of the box is in force by then. */
  writeFiles: (server: BoxConnection) => Promise<void>;
}

/** What a box needs of its instance. */
type Placed = Pick<BoxRow, 'tenantId' | 'limits' | 'network' | 'volumes'>;

const mountsOf = ({ tenantId: owner, volumes }: Pick<BoxRow, 'tenantId' | 'volumes'>): VolumeMount[] =>
  volumes.map(({ id, sizeMb, folder, readOnly }) => ({ id, owner, sizeMb, folder, readOnly }));

interface Placement {
  /** A warm instance has an address; an instance without one is still to be started. */
  instance: InstanceRow;
  hasWaited: boolean;
}

const probeMs = 1000;
const bindMs = 10_000;
const sampleMs = 5000;
/** After this many unfit warm instances, a new one is started. */
const warmTries = 3;
/** A warm instance already uses almost this much memory, so no lower limit is bound to it. */
const leastBoundMemoryMb = 384;

/**
 * Gives boxes their instances: a warm instance that is bound to what the box needs, a new one, or whichever becomes free first. A warm
 * instance that does not respond or cannot be bound is destroyed, never handed out.
 */
export const createAllocation = (options: AllocationOptions) => {
  const { driver, store, connections, instances, background, pool, queue, ceiling, starts, launch } = options;

  /** Returns what has to change in a warm instance of the template; undefined when it cannot be changed while it runs. */
  const changesFor = (template: Template, box: Placed): Binding | undefined => {
    const { bind } = driver.capabilities;
    if (box.limits.diskMb !== template.limits.diskMb) return undefined;
    const limits: Partial<BindableLimits> = {};
    for (const name of ['cpus', 'memoryMb', 'pids'] as const) {
      if (box.limits[name] === template.limits[name]) continue;
      if (!bind.limits.includes(name)) return undefined;
      limits[name] = box.limits[name];
    }
    if ((limits.memoryMb ?? leastBoundMemoryMb) < leastBoundMemoryMb) return undefined;
    // The size of files is limited at the start of an instance, by its disk.
    if (box.volumes.some(({ sizeMb }) => !bind.volumes || sizeMb > template.limits.diskMb)) return undefined;
    const change: Binding = {
      ...(Object.keys(limits).length > 0 && { limits }),
      ...(box.volumes.length > 0 && { volumes: mountsOf(box) }),
    };
    if (box.network === warmNetworkOf(template, driver.capabilities)) return change;
    return bind.networks.includes(box.network) ? { ...change, network: box.network } : undefined;
  };

  const wantedFor = (template: Template, box: Placed): Wanted => {
    const generation = changesFor(template, box) && pool.generationOf(template);
    const { id, limits } = template;
    return { site: driver.site, template: id, generation: generation ?? null, memoryMb: limits.memoryMb };
  };

  /** Reserves an instance to be started for a box, or waits for room. */
  const reserveOrWait = async (box: BoxRow, wanted: Wanted): Promise<Placement> => {
    const row = await store.allocation.reserve(box, { id: newId('i'), site: driver.site }, ceiling);
    return row ? { instance: row, hasWaited: false } : { instance: await queue.wait(box, wanted), hasWaited: true };
  };

  const place = async (box: BoxRow, wanted: Wanted): Promise<InstanceRow> => {
    const warm = wanted.generation === null ? undefined : await store.allocation.claimFor(box, wanted, ceiling);
    return warm ?? (await reserveOrWait(box, wanted)).instance;
  };

  /** Begins to meter an instance for its box. Nobody waits for the sample, which may take longer than the whole allocation. */
  const handOut = ({ id: box, limits }: BoxRow, id: string): StartupUsage => {
    const startup: StartupUsage = { cpuMs: null };
    background.run('begin to count the use of a box', async () => {
      const used = await sampleOne(driver, id, sampleMs);
      if (!used) return;
      const cpuMs = Math.round(used.cpuMs);
      startup.cpuMs = cpuMs;
      const hasBudget = limits.cpuSeconds !== undefined;
      await Promise.all([instances.handOut(id, cpuMs), hasBudget && store.boxes.noteStartup(box, id, cpuMs)]);
    });
    return startup;
  };

  /** Begins to write files. A failure is thrown to the caller that awaits the result, and is not an unhandled rejection when none does. */
  const beginFiles = (server: BoxConnection, { writeFiles }: BoxContents): Promise<void> => {
    const filesWritten = writeFiles(server);
    filesWritten.catch(() => {});
    return filesWritten;
  };

  /** Throws for a box with volumes whose code could connect it by them to other boxes, which no limit would count. */
  const checkConfined = async ({ volumes }: Placed, server: BoxConnection): Promise<void> => {
    if (volumes.length === 0 || driver.capabilities.hasOwnKernel || (await server.isConfined())) return;
    throw new CodeBoxError(
      'unavailable',
      'The box cannot have volumes: its image is older than this gateway, or its kernel has no Landlock. The operator has to update it.',
      { reason: 'volumes_unsafe' },
    );
  };

  /** Starts a reserved instance. */
  const start = async (
    box: BoxRow,
    id: string,
    template: Template,
    contents: BoxContents,
  ): Promise<ProvisionedInstance> => {
    const { limits, network } = box;
    const volumes = box.volumes.length > 0 ? { volumes: mountsOf(box) } : {};
    const { address, server } = await starts((signal, hold) =>
      launch(template, { id, limits, network, ...volumes }, signal, hold),
    );
    await checkConfined(box, server);
    const startup = handOut(box, id);
    const filesWritten = beginFiles(server, contents);
    const { env, files } = contents;
    if (Object.keys(env).length + files.length > 0) await server.bind({ env, files });
    return { instance: { id, address }, server, filesWritten, kind: 'cold', startup };
  };

  /** Binds a warm instance to a box. Resolves once the changes are in force and the instance has responded. */
  const bind = async (
    box: BoxRow,
    instance: { id: string; address: string },
    template: Template,
    contents: BoxContents,
  ): Promise<ProvisionedInstance> => {
    const { env, files } = contents;
    const server = connections.to(instance.id, instance.address);
    const change = changesFor(template, box) ?? {};
    const isChanged = Object.keys(change).length > 0;
    const signal = AbortSignal.timeout(bindMs);
    const startup = handOut(box, instance.id);
    // A claim takes milliseconds, so everything independent happens at the same time.
    const probe = server.health(AbortSignal.timeout(probeMs)).then(() => checkConfined(box, server));
    const changed = isChanged && Promise.all([probe, driver.bind(instance.id, change, signal)]);
    // Files may be fetched through the new network, and a fork needs the new memory limit.
    if (change.network !== undefined || template.limits.memoryMb < leastBoundMemoryMb) await changed;
    const filesWritten = beginFiles(server, contents);
    await Promise.all([
      probe,
      changed,
      (isChanged || Object.keys(env).length + files.length > 0) &&
        server.bind({ env, files, ...(change.network !== undefined && { network: change.network }) }),
    ]);
    return { instance, server, filesWritten, kind: 'warm', startup };
  };

  /** Takes an unfit instance from its box at once and destroys it in the background. */
  const discard = async ({ id }: InstanceRow, error: unknown): Promise<void> => {
    options.onUnfit(error);
    await store.instances.abandon(id);
    background.run('end a warm instance that was not fit', () => instances.destroy(id));
  };

  return {
    handOut,

    /**
     * Writes the row of a new box and claims an instance for it, or waits for one. Returns undefined when the user already has a living
     * reusable box. Throws `unavailable`, and leaves no row, when there was no room in time.
     */
    async claim(plan: NewBox, template: Template): Promise<(Placement & { box: BoxRow }) | undefined> {
      const wanted = wantedFor(template, plan);
      const claimed = await store.allocation.claim(plan, wanted, ceiling);
      if (!claimed) return undefined;
      const { box, instance } = claimed;
      try {
        return { box, ...(instance ? { instance, hasWaited: false } : await reserveOrWait(box, wanted)) };
      } catch (error) {
        await store.boxes.withdraw(box.id);
        throw error;
      } finally {
        pool.refillSoon();
      }
    },

    /**
     * Gives a box its running instance, beginning with `claimed` if there is one. When this resolves, limits, network and environment
     * are in force and `writeFiles` has begun; the row of the instance stays `creating` until the box is marked ready. Throws
     * `unavailable` when there was no room in time or no instance could be started; the box then has no instance.
     */
    async provision(
      box: BoxRow,
      template: Template,
      contents: BoxContents,
      claimed?: InstanceRow,
    ): Promise<ProvisionedInstance> {
      const wanted = wantedFor(template, box);
      const isChanged = Object.keys(changesFor(template, box) ?? {}).length > 0;
      let instance = claimed ?? (await place(box, wanted));
      for (let tries = 1; ; tries++) {
        const { id, address } = instance;
        if (address === null) {
          return await start(box, id, template, contents).catch(async (error: unknown) => {
            await background.attempt('abandon an instance that did not start', () => instances.abandon(id));
            throw error;
          });
        }
        try {
          return await bind(box, { id, address }, template, contents);
        } catch (error) {
          await discard(instance, error);
          if (hasCode(error, 'invalid_request')) throw error;
        }
        // A change that one warm instance refused would be refused by the next one too.
        const needsNew = isChanged || tries === warmTries;
        instance = await place(box, needsNew ? { ...wanted, generation: null } : wanted);
        pool.refillSoon();
      }
    },
  };
};

export type Allocation = ReturnType<typeof createAllocation>;
