import { CodeBoxError, type CreateBox, type Environment, hasCode, isUnavailable } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow, BoxStore } from '../../store/box/boxes.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import { inSpan } from '../../tracing/span.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import { goneError } from '../life/box-state.ts';
import { causeOfFailure } from '../life/causes.ts';
import type { Directory } from '../life/directory.ts';
import type { Endings } from '../life/endings.ts';
import type { Allocation, ProvisionedInstance } from '../supply/allocation.ts';
import type { Catalog } from '../supply/catalog.ts';
import type { Instances } from '../supply/instances.ts';
import { filesMs } from '../supply/launch.ts';
import { givenUpMs } from '../supply/starts.ts';
import { baseOf, type Template } from '../supply/templates.ts';
import type { TenantQuotas } from '../usage/quotas.ts';
import type { TenantVolumes } from '../volumes/volumes.ts';
import { planBox } from './box-plan.ts';
import { initialPackagesMs, installInitialPackages } from './initial-packages.ts';
import { toSmallFiles, writeInlineFiles } from './inline-files.ts';
import { createReuse } from './reuse.ts';

export interface CreationOptions {
  driver: Pick<Driver, 'capabilities'>;
  boxes: Pick<BoxStore, 'find' | 'findReusable' | 'touch' | 'markReady'>;
  directory: Pick<Directory, 'find' | 'checkHere' | 'reach'>;
  endings: Pick<Endings, 'end'>;
  activity: Activity;
  catalog: Pick<Catalog, 'pick'>;
  allocation: Pick<Allocation, 'claim' | 'provision'>;
  instances: Pick<Instances, 'destroy'>;
  startMs: number;
  /** How long a box may wait for room. */
  waitMs: number;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
  volumes: Pick<TenantVolumes, 'forBox'>;
  background: Background;
  /** Fills a new box with the saved files and the environment of another one. */
  restore: (from: BoxRow, server: BoxConnection, signal: AbortSignal) => Promise<void>;
  /** Wakes a resting box; resolves once it is ready. */
  wake: (ref: BoxRef) => Promise<void>;
  /** Reports the outcome of every request for a new box, and how long it took. */
  onClaim?: (outcome: ClaimOutcome, template: string, ms: number) => void;
}

/** Outcome of a box request: warm, cold, queued first, refused for lack of room, or failed to start. */
export type ClaimOutcome = 'warm' | 'cold' | 'queued' | 'refused' | 'failed';

/** What is done and added for a new box once its id is known. */
export interface ForNewBox {
  /** Called with its row before anything is started. */
  onAccepted?: ((row: BoxRow) => Promise<void>) | undefined;
  /** Returns variables of its environment; those of the request come before them. */
  envOf?: (row: BoxRow) => Environment;
  /**
   * The box whose saved files it begins with, in place of files of the request. Variables of that box's environment are added which it
   * does not have itself.
   */
  from?: BoxRow | undefined;
}

/** A box whose row is written, and whose instance may have to be started. */
interface ClaimedBox {
  box: BoxRow;
  instance: InstanceRow;
  template: Template;
  ask: CreateBox;
  startedAt: number;
  forNew: ForNewBox;
  /** CPU time that its tenant has left today for its packages; undefined for no limit. */
  cpuLeftMs: number | undefined;
}

export type Continuity = 'new' | 'reused' | 'restored' | 'lost';

export interface CreatedBox {
  box: BoxRow;
  continuity: Continuity;
}

/** Beyond this many, boxes rely on the sweep of those that are stuck in `creating`. */
const maxUnconfirmed = 1000;

/** Creates boxes. The row of a box is written before the driver is called. */
export const createCreation = (options: CreationOptions) => {
  const { driver, boxes, directory, endings, activity, catalog, allocation, instances, quotas, volumes } = options;
  const { startMs, waitMs, background } = options;
  /** Ids of boxes that the database may have written, or may not have ended, because its response was lost. */
  const unconfirmed = new Set<string>();

  const reuse = createReuse({
    boxes,
    directory,
    activity,
    wake: options.wake,
    end: endings.end,
    readyMs: waitMs + givenUpMs(startMs) + initialPackagesMs,
  });

  const markReady = async (row: BoxRow, provisioned: ProvisionedInstance, startedAt: number): Promise<BoxRow> => {
    const { instance, kind, startup } = provisioned;
    const ms = Math.round(performance.now() - startedAt);
    const ready = await boxes.markReady(row.id, instance, { kind, ms, cpuMs: startup.cpuMs });
    if (!ready) throw new CodeBoxError('gone', 'The box was deleted while it started.');
    return ready;
  };

  /** Notes a box whose statement failed without a response: the statement may still be executed, perhaps later. */
  const noteUnconfirmed =
    (id: string) =>
    (error: unknown): never => {
      const isRefusal = error instanceof CodeBoxError;
      if (!isRefusal && isUnavailable(error) && unconfirmed.size < maxUnconfirmed) unconfirmed.add(id);
      throw error;
    };

  const create = async (tenantId: string, ask: CreateBox, forNew: ForNewBox = {}): Promise<CreatedBox> => {
    const startedAt = performance.now();
    const template = await catalog.pick(tenantId, ask.template);
    const planned = planBox(tenantId, ask, template, driver.capabilities);
    const report = (outcome: ClaimOutcome) =>
      options.onClaim?.(outcome, baseOf(template), performance.now() - startedAt);
    /** Reports only failures of the deployment, not mistakes in the request. */
    const reportFailure = (outcome: ClaimOutcome) => (error: unknown) => {
      if (hasCode(error, 'unavailable')) report(outcome);
      throw error;
    };
    if (ask.user !== undefined && (ask.reuse || ask.name !== undefined)) {
      const box = await reuse(tenantId, ask.user, ask.name);
      if (box) return asReused(box);
    }
    const plan = { ...planned, volumes: await volumes.forBox(tenantId, ask.user, ask.volumes ?? []) };
    const cpuLeftMs = ask.packages?.length ? await quotas.cpuLeftMs(tenantId) : undefined;
    // Installing packages may take longer than the idle time of the box.
    const release = activity.hold(plan.id);
    try {
      const claim = () => allocation.claim(plan, template).catch(noteUnconfirmed(plan.id));
      const claimed = await inSpan(() => spanOf('claim', template), claim).catch(reportFailure('refused'));
      if (!claimed) {
        // Another request created the user's box after the lookup above.
        const box = await reuse(tenantId, ask.user ?? '', ask.name);
        if (box) return asReused(box);
        throw new CodeBoxError('conflict', "The user's box is just ending.", {
          reason: 'box_changing',
          retryAfterSeconds: 1,
        });
      }
      const started = startBox({ ...claimed, template, ask, startedAt, forNew, cpuLeftMs });
      const box = await started.catch(reportFailure('failed'));
      report(claimed.hasWaited ? 'queued' : (box.startupKind ?? 'cold'));
      return { box, continuity: 'new' };
    } finally {
      release();
    }
  };

  /** Starts a claimed box and fills it. If that fails, the box ends as `failed`. */
  const startBox = async (claimed: ClaimedBox): Promise<BoxRow> => {
    const { box: row, instance, template, ask, startedAt, forNew } = claimed;
    let provisioned: ProvisionedInstance | undefined;
    try {
      await forNew.onAccepted?.(row);
      const { files = [] } = ask;
      const env = { ...forNew.envOf?.(row), ...ask.env };
      const smallFiles = toSmallFiles(files);
      const writeFiles = async (server: BoxConnection) => {
        if (!smallFiles) await writeInlineFiles(server, files, AbortSignal.timeout(startMs));
      };
      const contents = { env, files: smallFiles ?? [], writeFiles };
      const provision = () => allocation.provision(row, template, contents, instance);
      provisioned = await inSpan(() => spanOf('provision', template), provision);
      await provisioned.filesWritten;
      if (forNew.from) await options.restore(forNew.from, provisioned.server, AbortSignal.timeout(filesMs(row)));
      await installInitialPackages(provisioned.server, ask.packages ?? [], claimed.cpuLeftMs);
      return await markReady(row, provisioned, startedAt);
    } catch (error) {
      // Without a database the sweeps end the box later. The caller gets the reason why it could not be started.
      const isOurs = await endings
        .end(row.id, 'failed', causeOfFailure(error))
        .catch(noteUnconfirmed(row.id))
        .catch((failure: unknown) => isUnavailable(failure) || Promise.reject(failure));
      // A deletion that came first has removed the row of the instance, perhaps before the instance existed.
      if (provisioned) await instances.destroy(provisioned.instance.id);
      const now = isOurs ? row : await directory.find(refOf(row));
      if (now.state === 'deleting' || now.state === 'deleted') throw goneError(now);
      if (error instanceof CodeBoxError && error.code !== 'internal') throw error;
      throw new CodeBoxError('unavailable', 'The box could not be started.', { cause: error, retryAfterSeconds: 5 });
    }
  };

  return {
    /** Creates a box, or returns the user's reusable one, or the one with this name. */
    create,

    /** Returns the reusable box of a user, or the one with this name, which it wakes if necessary, ready and in use; undefined when there is none. */
    reuse,

    /** Ends boxes whose creation failed without a response of the database: they belong to nobody. Does not hold up the other sweeps. */
    reclaim: background.oneAtATime('reclaim boxes', async () => {
      for (const id of [...unconfirmed]) {
        const end = () => endings.end(id, 'failed', causeOfFailure(undefined));
        if (await background.attempt('reclaim a box', end)) unconfirmed.delete(id);
      }
    }),
  };
};

export type Creation = ReturnType<typeof createCreation>;

const asReused = (box: BoxRow): CreatedBox => ({ box, continuity: box.restoredAt ? 'restored' : 'reused' });

const spanOf = (name: string, { name: template }: Template) => ({ name, attributes: { 'codebox.template': template } });
