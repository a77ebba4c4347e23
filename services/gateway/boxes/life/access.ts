import { CodeBoxError } from '#contract';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { BoxRow, FoundBox } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import type { Activity } from './activity.ts';

export interface AccessOptions {
  /** Where this gateway can reach boxes. */
  site: string;
  store: Pick<Store, 'boxes'>;
  connections: BoxConnections;
  activity: Activity;
  /** Brings a resting box back; returns when it is ready. */
  wake: (tenantId: string, id: string) => Promise<void>;
}

/** A box that can be talked to. */
export interface UsableBox {
  box: BoxRow;
  /** What embodies it, for questions to the driver. */
  instance: string;
  server: BoxConnection;
}

/**
 * A ready box is taken as ready for this long without asking again: it never changes its owner, and its instance only while it
 * rests. When another gateway deletes it meanwhile, its socket is gone and the caller is told so.
 */
export const trustMs = 1000;
const maxTrusted = 10_000;
/** Asked again, another gateway may answer. */
const elsewhereSeconds = 5;

/** Finds boxes for those who want something of them: to use one, which brings it back when it rests, or just to look at it. */
export const createAccess = ({ site, store, connections, activity, wake }: AccessOptions) => {
  const trusted = new Map<string, { box: BoxRow; instance: string; address: string; until: number }>();

  const find = async (tenantId: string, id: string): Promise<FoundBox> => {
    const found = await store.boxes.find(tenantId, id);
    if (!found) throw new CodeBoxError('not_found', 'There is no such box.');
    return found;
  };

  /** As `find`; throws `unavailable` for a box that lives at another site. */
  const findHere = async (tenantId: string, id: string): Promise<FoundBox> => {
    const found = await find(tenantId, id);
    checkHere(found);
    return found;
  };

  const checkHere = ({ instance }: Pick<FoundBox, 'instance'>): void => {
    if (!instance || instance.site === site) return;
    const detail = `The box lives at the site ${instance.site}, and this gateway serves the site ${site}: ask one of that site.`;
    throw new CodeBoxError('unavailable', detail, { retryAfterSeconds: elsewhereSeconds });
  };

  const known = (tenantId: string, id: string): UsableBox | undefined => {
    const found = trusted.get(id);
    if (!found || found.until <= performance.now() || found.box.tenantId !== tenantId) return undefined;
    return { box: found.box, instance: found.instance, server: connections.to(found.instance, found.address) };
  };

  const usable = ({ box, instance, isDue }: FoundBox): UsableBox => {
    checkLiving(box);
    if (box.state === 'hibernated')
      throw new CodeBoxError('conflict', 'The box hibernates; any use brings it back.', { reason: 'box_hibernated' });
    checkHere({ instance });
    if (!instance?.address) throw goneError(box);
    const { id, address } = instance;
    if (!isDue && !isResting(box)) {
      if (trusted.size >= maxTrusted) trusted.clear();
      trusted.set(box.id, { box, instance: id, address, until: performance.now() + trustMs });
    }
    return { box, instance: id, server: connections.to(id, address) };
  };

  /** Why a box that was ready cannot be used. */
  const notReady = async (tenantId: string, id: string): Promise<CodeBoxError> => {
    trusted.delete(id);
    const { box } = await find(tenantId, id);
    if (box.endedAt) return goneError(box);
    return new CodeBoxError('conflict', 'The state of the box is just changing.', {
      reason: 'box_changing',
      retryAfterSeconds: 1,
    });
  };

  const awake = async (tenantId: string, id: string): Promise<UsableBox> => {
    let found = await find(tenantId, id);
    if (isResting(found.box)) {
      await wake(tenantId, id);
      found = await find(tenantId, id);
    }
    const box = usable(found);
    // Any gateway may end it now: its use is on record before it begins.
    if (found.isDue && (await store.boxes.touch([id])).length === 0) throw await notReady(tenantId, id);
    return box;
  };

  const use = async (tenantId: string, id: string): Promise<UsableBox> => {
    const found = known(tenantId, id) ?? (await awake(tenantId, id));
    activity.note(id);
    return found;
  };

  const look = async (tenantId: string, id: string): Promise<UsableBox> =>
    known(tenantId, id) ?? usable(await find(tenantId, id));

  return {
    findEmbodied: find,
    findHere,
    checkHere,
    notReady,

    /**
     * A box to talk to; one that rests is brought back first. Throws `gone` for one that has ended, `conflict` for one that is
     * not ready yet.
     */
    use,

    /** Keeps a box in use until the answer is called. Throws as `use` does. */
    async hold(tenantId: string, id: string): Promise<() => void> {
      await use(tenantId, id);
      return activity.hold(id);
    },

    /** A box as it is: looking at it is no use of it and wakes none. `conflict` for one that hibernates. */
    look,

    /** Whom to ask about what has run in a box; undefined when that is gone, because the box has ended or hibernates. */
    async past(tenantId: string, id: string, { isUse }: { isUse: boolean }): Promise<BoxConnection | undefined> {
      if (!known(tenantId, id)) {
        const { box } = await find(tenantId, id);
        if (box.endedAt || box.state === 'hibernated') return undefined;
      }
      return (await (isUse ? use : look)(tenantId, id)).server;
    },

    /** What embodies a box, whatever is done about it; `gone` when nothing does. */
    async instanceOf({ tenantId, id }: Pick<BoxRow, 'tenantId' | 'id'>) {
      const { box, instance } = await findHere(tenantId, id);
      if (!instance?.address) throw goneError(box);
      return { instance: instance.id, server: connections.to(instance.id, instance.address) };
    },

    /** From now on this gateway asks anew whether the box is ready. */
    distrust(id: string): void {
      trusted.delete(id);
    },
  };
};

export type Access = ReturnType<typeof createAccess>;

/** Whether a box has to be brought back before it can be used, or is about to rest. */
export const isResting = ({ state, task }: Pick<BoxRow, 'state' | 'task'>): boolean =>
  state === 'paused' || state === 'hibernated' || (state === 'ready' && task !== null && task !== 'checkpoint');

/** Throws `gone` for a box that has ended, `conflict` for one that is not there yet. */
export const checkLiving = (box: BoxRow): void => {
  if (box.state === 'creating')
    throw new CodeBoxError('conflict', 'The box is still being created.', {
      reason: 'box_changing',
      retryAfterSeconds: 1,
    });
  if (box.endedAt) throw goneError(box);
};

export const goneError = (box: BoxRow) => new CodeBoxError('gone', box.cause?.detail ?? 'The box is gone.');
