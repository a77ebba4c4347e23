import { CodeBoxError, parseBoxName, type UpdateBox } from '#contract';
import { cursorAfter } from '../../../postgres/page.ts';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxFilter } from '../../store/box/box-list.ts';
import type { BoxRow, BoxStore, FoundBox } from '../../store/box/boxes.ts';
import { notActive } from '../../store/tenants/active-tenant.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import { checkLiving, goneError, isResting } from './box-state.ts';
import { requireNetwork, requireOnIdle } from './capabilities.ts';

export type { BoxRow };

export interface DirectoryOptions {
  driver: Pick<Driver, 'site' | 'capabilities'>;
  boxes: Pick<BoxStore, 'find' | 'idOfName' | 'list' | 'touch' | 'update' | 'endIn'>;
  connections: Pick<BoxConnections, 'to'>;
}

/** A box whose box server can be called. */
export interface ReachableBox {
  box: BoxRow;
  /** The id of its instance, for calls to the driver. */
  instance: string;
  server: BoxConnection;
}

/**
 * How long a ready box is cached. A ready box never changes its owner, and changes its instance only by resting. If another gateway
 * deletes it meanwhile, its socket is gone and the request fails for that reason.
 */
export const cacheMs = 1000;
const maxCached = 10_000;
/** When a client may retry a request that belongs to another site: another gateway may receive it then. */
const otherSiteSeconds = 5;

/** Finds boxes, and changes their records. Nothing here calls the driver or wakes a box, and only `keepalive` counts as use. */
export const createDirectory = ({ driver, boxes, connections }: DirectoryOptions) => {
  const readyBoxes = new Map<string, { box: BoxRow; instance: string; address: string; until: number }>();

  /** Returns the row of a box and its instance. Throws `not_found` for a box that is not this tenant's. */
  const locate = async (ref: BoxRef): Promise<FoundBox> => {
    const found = await boxes.find(ref.tenant, ref.box);
    if (!found) throw new CodeBoxError('not_found', 'There is no such box.');
    return found;
  };

  /** Returns the row of a box. Throws `not_found` for a box that is not this tenant's. */
  const find = async (ref: BoxRef): Promise<BoxRow> => (await locate(ref)).box;

  /** Throws `unavailable` for a box that lives at another site. */
  const checkHere = ({ instance }: Pick<FoundBox, 'instance'>): void => {
    if (!instance || instance.site === driver.site) return;
    const detail = `The box lives at the site ${instance.site}, and this gateway serves the site ${driver.site}: ask one of that site.`;
    throw new CodeBoxError('unavailable', detail, { retryAfterSeconds: otherSiteSeconds });
  };

  /** Like `locate`; throws `unavailable` for a box that lives at another site. */
  const locateHere = async (ref: BoxRef): Promise<FoundBox> => {
    const found = await locate(ref);
    checkHere(found);
    return found;
  };

  /** Throws the reason why a box could not be changed. */
  const unchanged = async (ref: BoxRef): Promise<never> => {
    const box = await find(ref);
    throw box.endedAt === null ? notActive() : goneError(box);
  };

  const cached = (ref: BoxRef): ReachableBox | undefined => {
    const found = readyBoxes.get(ref.box);
    if (!found || found.until <= performance.now() || found.box.tenantId !== ref.tenant) return undefined;
    return { box: found.box, instance: found.instance, server: connections.to(found.instance, found.address) };
  };

  const reach = ({ box, instance, isDue }: FoundBox): ReachableBox => {
    checkLiving(box);
    if (box.state === 'hibernated')
      throw new CodeBoxError('conflict', 'The box hibernates; any use brings it back.', { reason: 'box_hibernated' });
    checkHere({ instance });
    if (!instance?.address) throw goneError(box);
    const { id, address } = instance;
    if (!isDue && !isResting(box)) {
      if (readyBoxes.size >= maxCached) readyBoxes.clear();
      readyBoxes.set(box.id, { box, instance: id, address, until: performance.now() + cacheMs });
    }
    return { box, instance: id, server: connections.to(id, address) };
  };

  /** Removes a box from the cache, because its state changes. */
  const invalidate = (id: string): void => {
    readyBoxes.delete(id);
  };

  return {
    find,
    locate,
    locateHere,
    checkHere,

    /** Returns a box that was ready less than a second ago, without a query. */
    cached,

    /** Returns the connection to a box that was located. Throws `gone`, or `conflict` while it is created or hibernates. */
    reach,

    invalidate,

    /** Returns the id that a text stands for: itself, or the id of the living box that it names. Throws `not_found` when there is none. */
    async idOf(tenant: string, text: string): Promise<string> {
      const named = parseBoxName(text);
      if (!named) return text;
      const id = await boxes.idOfName(tenant, named);
      if (id !== undefined) return id;
      throw new CodeBoxError(
        'not_found',
        'There is no such box: it has not been created, or it has ended. POST /v1/boxes with this user and name creates it.',
      );
    },

    /** Returns a box as it is, also a frozen one. Throws `conflict` for one that hibernates. */
    look: async (ref: BoxRef): Promise<ReachableBox> => cached(ref) ?? reach(await locate(ref)),

    /** Returns whether the box server still has the journals of past runs: not after the box has ended or while it hibernates. */
    async hasJournals(ref: BoxRef): Promise<boolean> {
      if (cached(ref)) return true;
      const box = await find(ref);
      return !box.endedAt && box.state !== 'hibernated';
    },

    /** Returns the instance of a box, whatever task is under way. Throws `gone` when the box has none. */
    async instanceOf(row: Pick<BoxRow, 'tenantId' | 'id'>) {
      const { box, instance } = await locateHere(refOf(row));
      if (!instance?.address) throw goneError(box);
      return { instance: instance.id, server: connections.to(instance.id, instance.address) };
    },

    /** Returns a page of the boxes of a tenant: from `cursor` on, or after the box `after`. */
    async list(tenantId: string, { after, ...filter }: BoxFilter & { after?: string | undefined }) {
      const cursor = after === undefined ? filter.cursor : cursorAfter(await find({ tenant: tenantId, box: after }));
      return await boxes.list(tenantId, { ...filter, cursor });
    },

    /** Throws `invalid_request` for what this deployment does not offer. */
    checkUpdate({ network, onIdle }: UpdateBox): void {
      if (network !== undefined) requireNetwork(driver.capabilities, network);
      requireOnIdle(driver.capabilities, onIdle);
    },

    /** Changes everything but the network, which `rest` does. */
    async update(ref: BoxRef, change: Omit<UpdateBox, 'network'>): Promise<BoxRow> {
      requireOnIdle(driver.capabilities, change.onIdle);
      return (await boxes.update(ref.tenant, ref.box, change)) ?? (await unchanged(ref));
    },

    /**
     * Moves the end of a box to `seconds` from now, within the longest lifetime of a box; with `extendsOnly`, a later end stays. This
     * counts as use. A resting box stays at rest.
     */
    endIn: async (ref: BoxRef, seconds: number, { extendsOnly = false } = {}): Promise<BoxRow> =>
      (await boxes.endIn(ref.tenant, ref.box, seconds, extendsOnly)) ?? (await unchanged(ref)),

    /** Counts as use, which puts off the idle end. A resting box stays at rest. */
    async keepalive(ref: BoxRef): Promise<BoxRow> {
      checkLiving(await find(ref));
      await boxes.touch([ref.box]);
      return await find(ref);
    },

    /** Returns the error for requests to a box that has ended, undefined for one that has not. Reads only the database. */
    async endedError(ref: BoxRef): Promise<CodeBoxError | undefined> {
      const box = await find(ref);
      if (box.endedAt === null) return undefined;
      invalidate(ref.box);
      return goneError(box);
    },

    /** Returns the error for a request to a box that was ready and is not any more. */
    async notReadyError(ref: BoxRef): Promise<CodeBoxError> {
      invalidate(ref.box);
      const box = await find(ref);
      if (box.endedAt) return goneError(box);
      return new CodeBoxError('conflict', 'The state of the box is changing.', {
        reason: 'box_changing',
        retryAfterSeconds: 1,
      });
    },
  };
};

export type Directory = ReturnType<typeof createDirectory>;
