import {
  type BoxCause,
  type BoxQuery,
  type Cause,
  CodeBoxError,
  type CreateBox,
  hasCode,
  isUnavailable,
  type UpdateBox,
} from '#contract';
import { newId } from '../../../postgres/id.ts';
import { didYouMean, nearest } from '../../../suggestions/nearest.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import type { NewBox } from '../../store/supply/allocation.ts';
import { notActive } from '../../store/tenants/active-tenant.ts';
import { inSpan } from '../../tracing/span.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Allocation, Body } from '../supply/allocation.ts';
import type { Instances } from '../supply/instances.ts';
import { givenUpMs } from '../supply/starts.ts';
import { defaultTemplate, resolveLimits, type Template } from '../supply/templates.ts';
import type { TenantQuotas } from '../usage/quotas.ts';
import { type Access, checkLiving, goneError } from './access.ts';
import type { Activity } from './activity.ts';
import { requireLimits, requireNetwork, requireOnIdle } from './capabilities.ts';
import { causeOf, causeOfFailure } from './causes.ts';
import { initialPackagesMs, installInitialPackages } from './initial-packages.ts';
import { checkInlineFiles, toSmallFiles, writeInlineFiles } from './inline-files.ts';
import type { LastWords } from './last-words.ts';
import { createReuse } from './reuse.ts';

export interface LifecycleOptions {
  driver: Driver;
  store: Store;
  access: Access;
  activity: Activity;
  templates: Map<string, Template>;
  allocation: Allocation;
  instances: Instances;
  startMs: number;
  /** How long a box may wait for room. */
  waitMs: number;
  lastWords: LastWords;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
  /** Brings a resting box back; returns when it is ready. */
  wake: (ref: BoxRef) => Promise<void>;
  /** Told of every wish for a box, and how long it took. */
  onClaim?: (kind: ClaimKind, template: string, ms: number) => void;
}

/**
 * How a wish for a box was met: at once by a warm or a new instance, by either after a wait for room, or not: there was no room,
 * or it could not be made.
 */
export type ClaimKind = 'warm' | 'cold' | 'queued' | 'refused' | 'failed';

/** A box that is being made. */
interface Begun {
  box: BoxRow;
  instance: InstanceRow;
  template: Template;
  ask: CreateBox;
  startedAt: number;
  accept: () => Promise<void> | undefined;
  /** What its tenant may use today for its packages; undefined for no limit. */
  cpuLeftMs: number | undefined;
}

export type Continuity = 'new' | 'reused' | 'restored' | 'lost';

/** Those past it are given up by the sweep as any that are not made in time. */
const maxDoubtful = 1000;
/** What those who follow runs of a box have to record their ends, once it has been ended, and once it is found to be gone. */
const endedFollowersMs = 3000;
const lostFollowersMs = 300;
const inspectMs = 10_000;

/** Makes, finds and ends boxes. PostgreSQL is the truth; the driver is asked only after a row says so. */
export const createLifecycle = (options: LifecycleOptions) => {
  const { driver, store, access, activity, templates, allocation, instances, lastWords, quotas } = options;
  const { startMs, waitMs } = options;
  const { findEmbodied: find, distrust } = access;
  const doubtful = new Set<string>();

  const templateNamed = (name: string): Template => {
    const template = templates.get(name);
    if (template) return template;
    const names = [...templates.keys()];
    const detail = `is not a template; there are ${names.join(', ')}${didYouMean(nearest(name, names))}`;
    throw new CodeBoxError('invalid_request', `There is no template ${name}.`, {
      errors: [{ pointer: '/template', detail }],
    });
  };

  /** Throws `invalid_request` for a template whose image this driver cannot use. */
  const usableTemplate = (name: string): Template => {
    const template = templateNamed(name);
    if (!template.hasOwnImage || driver.capabilities.images) return template;
    const detail = `has an image of its own, which the ${driver.kind} driver of this deployment cannot use`;
    throw new CodeBoxError('invalid_request', `Template ${name} is not available.`, {
      errors: [{ pointer: '/template', detail }],
    });
  };

  const planBox = (tenantId: string, ask: CreateBox, template: Template): NewBox => {
    const network = ask.network ?? template.network;
    requireNetwork(driver.capabilities, network);
    requireLimits(driver.capabilities, ask.limits, template.limits);
    requireOnIdle(driver.capabilities, ask.onIdle);
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

  /** Returns false for a box that somebody else had ended before. */
  const end = async (boxId: string, state: 'deleting' | 'failed', cause: BoxCause): Promise<boolean> => {
    distrust(boxId);
    const ended = await store.boxes.end(boxId, state, cause);
    const going = await store.instances.of(boxId);
    // What lives at another site is destroyed by the sweeps there, and who follows its runs there tells how they end.
    if (going.some(({ site }) => site !== driver.site)) return ended !== undefined;
    await lastWords.ask(boxId);
    await dissolve(boxId, going, cause, endedFollowersMs);
    return ended !== undefined;
  };

  /** Destroys what embodied a box, and says of its runs that they are lost where nobody knows more. */
  const dissolve = async (boxId: string, gone: readonly InstanceRow[], cause: BoxCause, followersMs: number) => {
    try {
      for (const { id } of gone) await instances.destroy(id);
    } finally {
      await lastWords.wait(boxId, followersMs);
      await store.executions.loseAll(boxId, endOfRuns(cause));
    }
  };

  /**
   * This instance of it is gone, or of no use any more: the box goes on with the files that were kept, if any were, and has ended
   * otherwise. Many may find so, and late: only the first of them does something about it.
   */
  const lose = async (boxId: string, instance: string, cause: BoxCause): Promise<void> => {
    distrust(boxId);
    const lost = (await store.instances.of(boxId)).filter(({ id }) => id === instance);
    const isFirst =
      (await store.tasks.fallBack(boxId, instance)) ?? (await store.boxes.end(boxId, 'lost', cause, instance));
    if (!isFirst) return;
    if (cause.code !== 'unresponsive') await lastWords.ask(boxId);
    await dissolve(boxId, lost, cause, lostFollowersMs);
  };

  const readyMs = waitMs + givenUpMs(startMs) + initialPackagesMs;
  const reuse = createReuse({ boxes: store.boxes, checkHere: access.checkHere, wake: options.wake, end, readyMs });

  /** Gives a box that has none an instance of its own; throws `unavailable` when there was no room in time. */
  const embody = async (box: BoxRow): Promise<Body> => {
    const template = templates.get(box.template);
    if (!template) throw new CodeBoxError('conflict', `The template ${box.template} is not there any more.`);
    return await allocation.embody(box, template, { env: {}, files: [], furnish: async () => {} });
  };

  const markReady = async (row: BoxRow, body: Body, startedAt: number): Promise<BoxRow> => {
    const { instance, kind, counted } = body;
    const ms = Math.round(performance.now() - startedAt);
    const ready = await store.boxes.markReady(row.id, instance, { kind, ms, cpuMs: counted.cpuMs });
    if (!ready) throw new CodeBoxError('gone', 'The box was deleted while it started.');
    return ready;
  };

  /** A statement whose answer the database did not give may be done all the same, perhaps later. */
  const doubt =
    (id: string) =>
    (error: unknown): never => {
      const isSaid = error instanceof CodeBoxError;
      if (!isSaid && isUnavailable(error) && doubtful.size < maxDoubtful) doubtful.add(id);
      throw error;
    };

  const create = async (
    tenantId: string,
    ask: CreateBox,
    onAccepted?: (row: BoxRow) => Promise<void>,
  ): Promise<{ box: BoxRow; continuity: Continuity }> => {
    const startedAt = performance.now();
    const template = usableTemplate(ask.template ?? defaultTemplate);
    const plan = planBox(tenantId, ask, template);
    const tell = (kind: ClaimKind) => options.onClaim?.(kind, template.name, performance.now() - startedAt);
    /** Of what the deployment is to blame for, not of what the caller asked. */
    const tellFailure = (kind: ClaimKind) => (error: unknown) => {
      if (hasCode(error, 'unavailable')) tell(kind);
      throw error;
    };
    if (ask.reuse && ask.user !== undefined) {
      const box = await reuse(tenantId, ask.user);
      if (box) return asReused(box);
    }
    const cpuLeftMs = ask.packages?.length ? await quotas.cpuLeftMs(tenantId) : undefined;
    // Held, because this may take longer than a box may be without a sign of life.
    const release = activity.hold(plan.id);
    try {
      const claim = () => allocation.begin(plan, template).catch(doubt(plan.id));
      const begun = await inSpan(() => spanOf('claim', template), claim).catch(tellFailure('refused'));
      if (!begun) {
        // Another request made the user's box between the look and the write.
        const box = await reuse(tenantId, ask.user ?? '');
        if (box) return asReused(box);
        throw new CodeBoxError('conflict', "The user's box is just ending.", {
          reason: 'box_changing',
          retryAfterSeconds: 1,
        });
      }
      const accept = () => onAccepted?.(begun.box);
      const box = await complete({ ...begun, template, ask, startedAt, accept, cpuLeftMs }).catch(
        tellFailure('failed'),
      );
      tell(begun.hasWaited ? 'queued' : (box.startupKind ?? 'cold'));
      return { box, continuity: 'new' };
    } finally {
      release();
    }
  };

  /** Makes a box of a row that has an instance or the row of one; the box is `failed` when that fails. */
  const complete = async (begun: Begun): Promise<BoxRow> => {
    const { box: row, instance, template, ask, startedAt } = begun;
    let body: Body | undefined;
    try {
      await begun.accept();
      const { env = {}, files = [] } = ask;
      const small = toSmallFiles(files);
      const furnish = async (server: BoxConnection) => {
        if (!small) await writeInlineFiles(server, files, AbortSignal.timeout(startMs));
      };
      const embody = () => allocation.embody(row, template, { env, files: small ?? [], furnish }, instance);
      body = await inSpan(() => spanOf('embody', template), embody);
      await body.furnished;
      await installInitialPackages(body.server, ask.packages ?? [], begun.cpuLeftMs);
      return await markReady(row, body, startedAt);
    } catch (error) {
      // Without a database its sweeps end it later: why it could not be started is what its caller has to know.
      const isOurs = await end(row.id, 'failed', causeOfFailure(error))
        .catch(doubt(row.id))
        .catch((failure: unknown) => isUnavailable(failure) || Promise.reject(failure));
      // A deletion that came first has forgotten the instance, perhaps before it was there.
      if (body) await instances.destroy(body.instance.id);
      const { box: now } = isOurs ? { box: row } : await find(refOf(row));
      if (now.state === 'deleting' || now.state === 'deleted') throw goneError(now);
      if (error instanceof CodeBoxError && error.code !== 'internal') throw error;
      throw new CodeBoxError('unavailable', 'The box could not be started.', { cause: error, retryAfterSeconds: 5 });
    }
  };

  /** Why an instance does not run any more; undefined while it may. Throws `unavailable` when nobody can tell. */
  const causeOfEnd = async (instanceId: string): Promise<BoxCause | undefined> => {
    const instance = await driver.inspect(instanceId, AbortSignal.timeout(inspectMs));
    return instance === undefined || instance.state === 'ended' ? causeOf(instance?.why) : undefined;
  };

  return {
    /** A new box, or the user's one. `onAccepted` is told of a new one before anything of it is made. */
    create,
    ...access,
    destroyInstance: instances.destroy,
    embody,
    handOut: allocation.handOut,
    end,
    causeOfEnd,
    lose,
    /** Ends boxes that were given to nobody, and that the database may have written when it was hardly there. */
    async takeBack(): Promise<void> {
      for (const id of doubtful) {
        await end(id, 'failed', causeOfFailure(undefined));
        doubtful.delete(id);
      }
    },
    templates: () => [...templates.values()],
    /** The template that a caller names; `invalid_request` for one that is not there or not available. */
    template: (name = defaultTemplate): Template => usableTemplate(name),
    /** The template of a box that is there; undefined when the configuration no longer has it. */
    templateOf: ({ template }: Pick<BoxRow, 'template'>): Template | undefined => templates.get(template),
    /** A box of this tenant; `not_found` for any other. */
    find: async (ref: BoxRef): Promise<BoxRow> => (await find(ref)).box,
    list: (tenantId: string, query: BoxQuery) => store.boxes.list(tenantId, query),

    async update(ref: BoxRef, change: UpdateBox): Promise<BoxRow> {
      requireOnIdle(driver.capabilities, change.onIdle);
      const row = await store.boxes.update(ref.tenant, ref.box, change);
      if (row) return row;
      const { box } = await find(ref);
      throw box.endedAt === null ? notActive() : goneError(box);
    },

    /** Counts as use: puts off the idle end. A box that rests goes on resting. */
    async keepalive(ref: BoxRef): Promise<BoxRow> {
      checkLiving((await find(ref)).box);
      await store.boxes.touch([ref.box]);
      return (await find(ref)).box;
    },

    /** What callers of a box that has ended are told; undefined while it has not. Asks only the database. */
    async ended(ref: BoxRef): Promise<CodeBoxError | undefined> {
      const { box } = await find(ref);
      if (box.endedAt === null) return undefined;
      distrust(ref.box);
      return goneError(box);
    },

    /**
     * Ends a box and waits until nothing is left of it, unless that lives at another site, whose sweeps see to it. A box that has ended
     * already is left as it is.
     */
    async delete(ref: BoxRef): Promise<void> {
      await find(ref);
      await end(ref.box, 'deleting', { code: 'deleted', detail: 'The box was deleted.' });
    },

    /**
     * Why a box does not answer: the cause when it is gone (and from now on recorded as such), undefined when its instance
     * still runs, so that asking again makes sense.
     */
    async whyGone(ref: BoxRef): Promise<Cause | undefined> {
      const { box, instance } = await find(ref);
      if (box.state === 'hibernated') return { code: 'box_hibernated', detail: 'The box hibernates.' };
      const isEmbodied = box.state === 'ready' || box.state === 'paused';
      // Only the site where it lives can tell.
      if (instance && instance.site !== driver.site) return undefined;
      if (!isEmbodied || !instance) return endOfRuns(box.cause);
      const cause = await causeOfEnd(instance.id);
      if (!cause) return undefined;
      await lose(ref.box, instance.id, cause);
      // Somebody else may have been first, for another reason.
      const now = (await find(ref)).box;
      return endOfRuns(now.state === 'hibernated' ? cause : now.cause);
    },
  };
};

export type Lifecycle = ReturnType<typeof createLifecycle>;

/** What ends the runs of a box that ends. */
const endOfRuns = (cause: BoxCause | null): Cause => ({
  code: !cause || cause.code === 'instance_lost' ? 'box_lost' : `box_${cause.code}`,
  detail: cause?.detail ?? 'The box is gone.',
});

const asReused = (box: BoxRow): { box: BoxRow; continuity: Continuity } => ({
  box,
  continuity: box.restoredAt ? 'restored' : 'reused',
});

const spanOf = (name: string, { name: template }: Template) => ({ name, attributes: { 'codebox.template': template } });
