import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BoxCause,
  type BoxQuery,
  type Cause,
  CodeBoxError,
  type CreateBox,
  type Environment,
  type UpdateBox,
} from '#contract';
import type { BoxConnection, BoxConnections } from '../box-server/connections.ts';
import type { Driver } from '../drivers/driver.ts';
import type { BoxRow, NewBox } from '../store/boxes.ts';
import type { Store } from '../store/store.ts';
import { type Access, checkLiving, goneError, isResting } from './access.ts';
import type { Activity } from './activity.ts';
import { newId } from './id.ts';
import { initialPackagesMs, installInitialPackages } from './initial-packages.ts';
import { checkInlineFiles, writeInlineFiles } from './inline-files.ts';
import type { Meter } from './meter.ts';
import { defaultTemplate, resolveLimits, type Template } from './templates.ts';

export interface LifecycleOptions {
  driver: Driver;
  store: Store;
  connections: BoxConnections;
  access: Access;
  activity: Activity;
  templates: Map<string, Template>;
  maxBoxes: number;
  startMs: number;
  /** Writes the ends of executions of a box that are known and not yet written. */
  recordEnds: (boxId: string) => Promise<void>;
  meter: Pick<Meter, 'count'>;
  /** Brings a resting box back; returns when it is ready. */
  wake: (tenantId: string, id: string) => Promise<void>;
  /** Told of every created box. */
  onStart?: (ms: number) => void;
}

export type Continuity = 'new' | 'reused' | 'restored' | 'lost';

const inspectEveryMs = 300;
const destroyDeadlineMs = 30_000;

/** Makes, finds and ends boxes. PostgreSQL is the truth; the driver is asked only after a row says so. */
export const createLifecycle = (options: LifecycleOptions) => {
  const { driver, store, connections, access, activity, templates, maxBoxes, startMs } = options;
  const { findEmbodied: find, distrust } = access;

  const templateNamed = (name: string): Template => {
    const template = templates.get(name);
    if (template) return template;
    const detail = `is not a template; there are ${[...templates.keys()].join(', ')}`;
    throw new CodeBoxError('invalid_request', `There is no template ${name}.`, {
      errors: [{ pointer: '/template', detail }],
    });
  };

  /** Throws `invalid_request` for a template whose image this driver cannot use. */
  const usableTemplate = (name: string): Template => {
    const template = templateNamed(name);
    if (!template.hasOwnImage || driver.capabilities.images) return template;
    const detail = `has an image of its own, which the ${driver.name} driver of this deployment cannot use`;
    throw new CodeBoxError('invalid_request', `Template ${name} is not available.`, {
      errors: [{ pointer: '/template', detail }],
    });
  };

  const planBox = (tenantId: string, ask: CreateBox, template: Template): NewBox => {
    const network = ask.network ?? template.network;
    if (!driver.capabilities.networks.includes(network)) {
      const detail = `is not offered by this deployment; it offers ${driver.capabilities.networks.join(', ')}`;
      throw new CodeBoxError('invalid_request', 'The network policy is not available.', {
        errors: [{ pointer: '/network', detail }],
      });
    }
    checkInlineFiles(ask.files ?? [], network);
    return {
      id: newId('box'),
      tenantId,
      userId: ask.user ?? null,
      reusable: ask.reuse ?? false,
      template: template.name,
      metadata: ask.metadata ?? {},
      limits: resolveLimits(template, ask.limits),
      network,
      idleSeconds: ask.idleSeconds ?? template.idleSeconds,
      maxLifetimeSeconds: ask.maxLifetimeSeconds ?? template.maxLifetimeSeconds,
      onIdle: ask.onIdle ?? 'delete',
    };
  };

  /** Polls until the box server answers; throws when its instance stopped or the deadline is over. */
  const waitUntilServing = async (instanceId: string, server: BoxConnection, signal: AbortSignal): Promise<void> => {
    let inspectAt = performance.now() + inspectEveryMs;
    for (;;) {
      try {
        await server.health(signal);
        return;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof CodeBoxError) || error.code !== 'unavailable') throw error;
      }
      if (performance.now() > inspectAt) {
        const instance = await driver.inspect(instanceId, signal);
        if (!instance?.running)
          throw new CodeBoxError('unavailable', 'The box ended while it started.', { cause: instance?.exit });
        inspectAt = performance.now() + inspectEveryMs;
      }
      await sleep(20, undefined, { signal });
    }
  };

  const destroyInstance = async (instanceId: string, address: string | null): Promise<void> => {
    if (address) connections.drop(address);
    await options.meter.count(instanceId);
    await driver.destroy(instanceId, AbortSignal.timeout(destroyDeadlineMs));
    await store.boxes.forgetInstance(instanceId);
  };

  const end = async (boxId: string, state: 'deleting' | 'failed' | 'lost', cause: BoxCause): Promise<void> => {
    distrust(boxId);
    await store.boxes.end(boxId, state, cause);
    // What is known of its runs comes before what is not.
    await options.recordEnds(boxId);
    await store.executions.loseAll(boxId, { code: `box_${cause.code}`, detail: cause.detail });
    for (const instance of await store.boxes.instancesOf(boxId)) await destroyInstance(instance.id, instance.address);
  };

  /** Its instance is gone: it goes on with the files that were kept, if any were, and has ended otherwise. */
  const lose = async (boxId: string): Promise<void> => {
    distrust(boxId);
    const lost = await store.boxes.instancesOf(boxId);
    if (!(await store.tasks.fallBack(boxId))) return await end(boxId, 'lost', instanceLost);
    await options.recordEnds(boxId);
    await store.executions.loseAll(boxId, { code: 'box_lost', detail: instanceLost.detail });
    for (const instance of lost) await destroyInstance(instance.id, instance.address);
  };

  /** Gives a box that has none an instance; throws `unavailable` when there is no room. */
  const embody = async (box: BoxRow) => {
    const template = templates.get(box.template);
    if (!template) throw new CodeBoxError('conflict', `The template ${box.template} is not there any more.`);
    const { limits, network } = box;
    const instanceId = newId('i');
    await store.boxes.addInstance(box.id, { id: instanceId, driver: driver.name }, maxBoxes);
    try {
      const signal = AbortSignal.timeout(startMs);
      const labels = { box: box.id };
      const instance = await driver.create({ id: instanceId, image: template.image, limits, network, labels }, signal);
      const server = connections.to(instance.address);
      await waitUntilServing(instanceId, server, signal);
      return { instance: { id: instanceId, address: instance.address }, server };
    } catch (error) {
      await destroyInstance(instanceId, null);
      throw error;
    }
  };

  const start = async (row: BoxRow, instanceId: string, template: Template, ask: CreateBox): Promise<BoxRow> => {
    const startedAt = performance.now();
    const signal = AbortSignal.timeout(startMs);
    const labels = { box: row.id };
    const { limits, network } = row;
    const instance = await driver.create({ id: instanceId, image: template.image, limits, network, labels }, signal);
    const server = connections.to(instance.address);
    await waitUntilServing(instanceId, server, signal);
    // What was used until now is not its user's; without a limit nobody asks.
    const startupCpuMs =
      limits.cpuSeconds === undefined ? null : Math.round((await driver.stats(instanceId, signal)).cpuMs);
    const env: Environment = ask.env ?? {};
    if (Object.keys(env).length > 0) await server.bind({ env });
    await writeInlineFiles(server, ask.files ?? [], signal);
    // Held, because this may take longer than a box may be without a sign of life.
    const release = activity.hold(row.id);
    await installInitialPackages(server, ask.packages ?? []).finally(release);
    const ms = Math.round(performance.now() - startedAt);
    const ready = await store.boxes.markReady(row.id, instanceId, instance.address, { startupMs: ms, startupCpuMs });
    if (!ready) throw new CodeBoxError('gone', 'The box was deleted while it started.');
    options.onStart?.(ms);
    return ready;
  };

  const create = async (
    tenantId: string,
    ask: CreateBox,
    onAccepted?: (row: BoxRow) => Promise<void>,
  ): Promise<{ box: BoxRow; continuity: Continuity }> => {
    const template = usableTemplate(ask.template ?? defaultTemplate);
    const plan = planBox(tenantId, ask, template);
    if (ask.reuse && ask.user !== undefined) {
      const known = await store.boxes.findReusable(tenantId, ask.user);
      if (known) return await reuse(tenantId, known);
    }
    const instanceId = newId('i');
    const row = await store.boxes.insert(plan, { id: instanceId, driver: driver.name }, maxBoxes);
    if (!row) {
      // Another request made the user's box between the look and the write.
      const known = await store.boxes.findReusable(tenantId, ask.user ?? '');
      if (!known) throw new CodeBoxError('conflict', "The user's box is just ending.", { retryAfterSeconds: 1 });
      return await reuse(tenantId, known);
    }
    try {
      await onAccepted?.(row);
      return { box: await start(row, instanceId, template, ask), continuity: 'new' };
    } catch (error) {
      await end(row.id, 'failed', { code: 'start_failed', detail: 'The box could not be started.' });
      // A deletion that came first has forgotten the instance, perhaps before it was there.
      await destroyInstance(instanceId, null);
      if (error instanceof CodeBoxError && error.code !== 'internal') throw error;
      throw new CodeBoxError('unavailable', 'The box could not be started.', { cause: error, retryAfterSeconds: 5 });
    }
  };

  const reuse = async (tenantId: string, known: BoxRow): Promise<{ box: BoxRow; continuity: Continuity }> => {
    if (isResting(known)) await options.wake(tenantId, known.id);
    const box = await waitUntilReady(tenantId, known);
    await store.boxes.touch([box.id]);
    return { box, continuity: box.restoredAt ? 'restored' : 'reused' };
  };

  const waitUntilReady = async (tenantId: string, box: BoxRow): Promise<BoxRow> => {
    const deadline = performance.now() + startMs + initialPackagesMs;
    for (;;) {
      const row = (await find(tenantId, box.id)).box;
      if (row.state === 'ready') return row;
      if (row.state !== 'creating') throw goneError(row);
      if (performance.now() > deadline) throw new CodeBoxError('timeout', 'The box did not become ready in time.');
      await sleep(50);
    }
  };

  const instanceIsRunning = async (instanceId: string): Promise<boolean> =>
    (await driver.inspect(instanceId, AbortSignal.timeout(10_000)))?.running ?? false;

  return {
    /** A new box, or the user's one. `onAccepted` is told of a new one before anything of it is made. */
    create,
    ...access,
    destroyInstance,
    embody,
    end,
    lose,
    templates: () => [...templates.values()],
    /** The template that a caller names; `invalid_request` for one that is not there or not available. */
    template: (name = defaultTemplate): Template => usableTemplate(name),
    /** The template of a box that is there; undefined when the configuration no longer has it. */
    templateOf: ({ template }: Pick<BoxRow, 'template'>): Template | undefined => templates.get(template),
    /** A box of this tenant; `not_found` for any other. */
    find: async (tenantId: string, id: string): Promise<BoxRow> => (await find(tenantId, id)).box,
    list: (tenantId: string, query: BoxQuery) => store.boxes.list(tenantId, query),

    async update(tenantId: string, id: string, change: UpdateBox): Promise<BoxRow> {
      const row = await store.boxes.update(tenantId, id, change);
      if (row) return row;
      throw goneError((await find(tenantId, id)).box);
    },

    /** Counts as use: puts off the idle end. A box that rests goes on resting. */
    async keepalive(tenantId: string, id: string): Promise<BoxRow> {
      checkLiving((await find(tenantId, id)).box);
      await store.boxes.touch([id]);
      return (await find(tenantId, id)).box;
    },

    /** What callers of a box that has ended are told; undefined while it has not. Asks only the database. */
    async ended(tenantId: string, id: string): Promise<CodeBoxError | undefined> {
      const { box } = await find(tenantId, id);
      if (box.endedAt === null) return undefined;
      distrust(id);
      return goneError(box);
    },

    /** Ends a box and waits until nothing is left of it; a box that has ended already is left as it is. */
    async delete(tenantId: string, id: string): Promise<void> {
      await find(tenantId, id);
      await end(id, 'deleting', { code: 'deleted', detail: 'The box was deleted.' });
    },

    /**
     * Why a box does not answer: the cause when it is gone (and from now on recorded as such), undefined when its instance
     * still runs, so that asking again makes sense.
     */
    async whyGone(tenantId: string, id: string): Promise<Cause | undefined> {
      const { box, instance } = await find(tenantId, id);
      if (box.state === 'hibernated') return { code: 'box_hibernated', detail: 'The box hibernates.' };
      const isEmbodied = box.state === 'ready' || box.state === 'paused';
      if (isEmbodied && instance && (await instanceIsRunning(instance.id))) return undefined;
      if (isEmbodied) {
        await lose(id);
        return { code: 'box_lost', detail: instanceLost.detail };
      }
      return { code: `box_${box.cause?.code ?? 'lost'}`, detail: box.cause?.detail ?? 'The box is gone.' };
    },
  };
};

export type Lifecycle = ReturnType<typeof createLifecycle>;

const instanceLost = {
  code: 'instance_lost',
  detail: 'The instance of the box ended unexpectedly.',
} as const satisfies BoxCause;
