import { CodeBoxError } from '#contract';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { BoxRow, FoundBox } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Activity } from './activity.ts';

export interface AccessOptions {
  /** Where this gateway can reach boxes. */
  site: string;
  store: Pick<Store, 'boxes'>;
  connections: BoxConnections;
  activity: Activity;
  /** Brings a resting box back; returns when it is ready. */
  wake: (ref: BoxRef) => Promise<void>;
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

  const find = async (ref: BoxRef): Promise<FoundBox> => {
    const found = await store.boxes.find(ref.tenant, ref.box);
    if (!found) throw new CodeBoxError('not_found', 'There is no such box.');
    return found;
  };

  /** As `find`; throws `unavailable` for a box that lives at another site. */
  const findHere = async (ref: BoxRef): Promise<FoundBox> => {
    const found = await find(ref);
    checkHere(found);
    return found;
  };

  const checkHere = ({ instance }: Pick<FoundBox, 'instance'>): void => {
    if (!instance || instance.site === site) return;
    const detail = `The box lives at the site ${instance.site}, and this gateway serves the site ${site}: ask one of that site.`;
    throw new CodeBoxError('unavailable', detail, { retryAfterSeconds: elsewhereSeconds });
  };

  const known = (ref: BoxRef): UsableBox | undefined => {
    const found = trusted.get(ref.box);
    if (!found || found.until <= performance.now() || found.box.tenantId !== ref.tenant) return undefined;
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
  const notReady = async (ref: BoxRef): Promise<CodeBoxError> => {
    trusted.delete(ref.box);
    const { box } = await find(ref);
    if (box.endedAt) return goneError(box);
    return new CodeBoxError('conflict', 'The state of the box is just changing.', {
      reason: 'box_changing',
      retryAfterSeconds: 1,
    });
  };

  const awake = async (ref: BoxRef): Promise<UsableBox> => {
    let found = await find(ref);
    if (isResting(found.box)) {
      await wake(ref);
      found = await find(ref);
    }
    const box = usable(found);
    // Any gateway may end it now: its use is on record before it begins.
    if (found.isDue && (await store.boxes.touch([ref.box])).length === 0) throw await notReady(ref);
    return box;
  };

  const use = async (ref: BoxRef): Promise<UsableBox> => {
    const found = known(ref) ?? (await awake(ref));
    activity.note(ref.box);
    return found;
  };

  const look = async (ref: BoxRef): Promise<UsableBox> => known(ref) ?? usable(await find(ref));

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
    async hold(ref: BoxRef): Promise<() => void> {
      await use(ref);
      return activity.hold(ref.box);
    },

    /** A box as it is: looking at it is no use of it and wakes none. `conflict` for one that hibernates. */
    look,

    /** Whom to ask about what has run in a box; undefined when that is gone, because the box has ended or hibernates. */
    async past(ref: BoxRef, { isUse }: { isUse: boolean }): Promise<BoxConnection | undefined> {
      if (!known(ref)) {
        const { box } = await find(ref);
        if (box.endedAt || box.state === 'hibernated') return undefined;
      }
      return (await (isUse ? use : look)(ref)).server;
    },

    /** What embodies a box, whatever is done about it; `gone` when nothing does. */
    async instanceOf(row: Pick<BoxRow, 'tenantId' | 'id'>) {
      const { box, instance } = await findHere(refOf(row));
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
