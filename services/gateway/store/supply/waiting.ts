import {
  and,
  asc,
  count,
  eq,
  getTableColumns,
  gt,
  inArray,
  isNotNull,
  isNull,
  lt,
  max,
  min,
  ne,
  or,
  type Placeholder,
  type SQLWrapper,
  sql,
} from 'drizzle-orm';
import { alias } from 'drizzle-orm/pg-core';
import type { BoxRow } from '../box/boxes.ts';
import type { InstanceRow } from '../box/instances.ts';
import type { Database } from '../database.ts';
import { boxes, instances, waiting } from '../schema.ts';
import {
  type Capacity,
  freeBelow,
  holdLiving,
  memoryOf,
  readTaken,
  type Transaction,
  underCapacityLock,
} from './capacity.ts';
import { planSeating, type Waiter } from './seating.ts';

/** A gateway shows several times a second that it still waits; one that has not for this long is gone. */
const goneSeconds = 3;
/** How many may wait, in all and of one tenant. */
const maxWaiting = 1000;
const maxWaitingOfTenant = 200;

const isAlive = (site: string | Placeholder) =>
  and(
    eq(waiting.site, site),
    gt(waiting.seenAt, sql`now() - make_interval(secs => ${goneSeconds})`),
    gt(waiting.until, sql`now()`),
  );

const memoryMb = sql<number>`(${boxes.limits} ->> 'memoryMb')::int`;
/** After half of its time: until then others may pass, and after it there is time left for something to become free. */
const isPressing = sql<boolean>`now() > ${waiting.createdAt} + (${waiting.until} - ${waiting.createdAt}) / 2`;

const inTurn = [asc(waiting.turn), asc(waiting.createdAt), asc(waiting.boxId)];

/** A ceiling, or what stands for it in a prepared statement. */
type Bounds = Record<keyof Capacity, number | Placeholder>;

/** How much memory one more box of a tenant could have if no other tenant had any: that what it has itself leaves. */
const couldHave = (db: Pick<Database, 'select'>, site: string | Placeholder, tenantId: SQLWrapper, ceiling: Bounds) => {
  const owned = alias(boxes, 'owned');
  const left = sql`${ceiling.memoryMb}::int - coalesce(sum(${memoryOf(owned.limits)}), 0)`;
  const own = db
    .select({ mb: sql`case when count(*) < ${ceiling.instances}::int then ${left} else 0 end` })
    .from(instances)
    .innerJoin(owned, eq(owned.id, instances.boxId))
    .where(and(sql`${owned.tenantId} = ${tenantId}`, eq(instances.site, site), ne(instances.state, 'destroying')));
  return sql<number>`${own}::float8`;
};

/**
 * A row when somebody waits at the site who comes before whoever asks now: anyone of the same tenant, and of other tenants whose first one
 * does not wait for boxes of its own.
 */
export const someoneWaits = (
  db: Database,
  site: string | Placeholder,
  ceiling: Bounds,
  tenantId?: string | Placeholder,
) => {
  const first = db
    .selectDistinctOn([waiting.tenantId], { tenantId: waiting.tenantId, memoryMb: memoryMb.as('first_mb') })
    .from(waiting)
    .innerJoin(boxes, eq(boxes.id, waiting.boxId))
    .where(isAlive(site))
    .orderBy(asc(waiting.tenantId), ...inTurn)
    .as('first');
  return db
    .select({ one: sql`1` })
    .from(first)
    .where(
      or(
        tenantId === undefined ? undefined : eq(first.tenantId, tenantId),
        sql`${first.memoryMb} <= ${couldHave(db, site, first.tenantId, ceiling)}`,
      ),
    )
    .limit(1);
};

/** The warm instances that would do for a box: of this pool. `generation` is null when none would. */
export interface Wanted {
  site: string;
  template: string;
  generation: string | null;
  /** What each of them may use of memory. */
  memoryMb: number;
}

/** One who waits no more, with the instance it got: a warm one has an address, another one is to be made. */
export interface Admission {
  boxId: string;
  instance: InstanceRow;
}

/**
 * The queue for room, one for all gateways of a site. Each turn has a box of every tenant that waits, so a tenant with many keeps nobody
 * waiting behind all of them.
 */
export const createWaitingStore = (db: Database) => ({
  /**
   * Puts a box into the queue; false when that is full. Whoever does so has to ask `admit` again and again. Throws `gone` for a box
   * that has ended.
   */
  async join(box: Pick<BoxRow, 'id' | 'tenantId'>, wanted: Wanted, waitMs: number): Promise<boolean> {
    const { site, template, generation } = wanted;
    return await underCapacityLock(db, async (tx) => {
      await tx.delete(waiting).where(lt(waiting.until, sql`now()`));
      const [all] = await tx
        .select({ n: count(), first: min(waiting.turn) })
        .from(waiting)
        .where(isAlive(site));
      const [own] = await tx
        .select({ n: count(), last: max(waiting.turn) })
        .from(waiting)
        .where(and(eq(waiting.tenantId, box.tenantId), isAlive(site)));
      if ((all?.n ?? 0) >= maxWaiting || (own?.n ?? 0) >= maxWaitingOfTenant) return false;
      await holdLiving(tx, box.id);
      const turn = Math.max((own?.last ?? -1) + 1, all?.first ?? 0);
      // Its gateway takes it out in time; this is for one that cannot.
      const until = sql`now() + make_interval(secs => ${waitMs / 1000 + goneSeconds})`;
      const { id: boxId, tenantId } = box;
      await tx
        .insert(waiting)
        .values({ boxId, tenantId, site, template, generation, turn, until })
        // There already: the answer to an earlier call was lost. It keeps its turn.
        .onConflictDoUpdate({
          target: waiting.boxId,
          set: { site, template, generation, until, seenAt: sql`now()` },
        });
      return true;
    });
  },

  /** Takes a box out of the queue; false when it was admitted before, or is not there any more. */
  async leave(boxId: string): Promise<boolean> {
    return (await db.delete(waiting).where(eq(waiting.boxId, boxId)).returning({ id: waiting.boxId })).length > 0;
  },

  /**
   * Shows that `mine` still wait, and lets those on whose turn it is. When there is no room, warm instances that nobody who waits
   * could use are evicted, which their site has to destroy. `newId` names an instance that is to be made. `missing` are in the
   * queue no more, because their boxes have ended.
   */
  async admit(
    site: string,
    mine: readonly string[],
    ceiling: Capacity,
    newId: () => string,
  ): Promise<{ admitted: Admission[]; evicted: InstanceRow[]; missing: string[] }> {
    return await underCapacityLock(db, async (tx) => {
      const seen = await tx
        .update(waiting)
        .set({ seenAt: sql`now()` })
        .where(inArray(waiting.boxId, [...mine]))
        .returning({ id: waiting.boxId });
      const queue = await tx
        .select({ ...getTableColumns(waiting), memoryMb, isPressing })
        .from(waiting)
        .innerJoin(boxes, eq(boxes.id, waiting.boxId))
        .where(isAlive(site))
        .orderBy(...inTurn)
        .limit(maxWaiting);
      const tenants = await tx
        .select({ id: waiting.tenantId, mostMb: couldHave(tx, site, waiting.tenantId, ceiling) })
        .from(waiting)
        .where(isAlive(site))
        .groupBy(waiting.tenantId);
      const mostMb = new Map(tenants.map((tenant) => [tenant.id, tenant.mostMb]));
      const waiters = queue.map((one) => ({ ...one, couldFit: one.memoryMb <= (mostMb.get(one.tenantId) ?? 0) }));
      const { all, ending } = await readTaken(tx, site);
      const { seated, evicted } = planSeating(waiters, {
        ceiling,
        free: freeBelow(ceiling, all),
        ending,
        warm: await warmInstances(tx, site),
        warming: await warmingInstances(tx, site),
      });
      const own = new Set(mine);
      const admitted: Admission[] = [];
      for (const { waiter, warmId } of seated) {
        if (!own.has(waiter.boxId)) continue;
        const instance = await seat(tx, waiter, warmId, newId);
        if (instance) admitted.push({ boxId: waiter.boxId, instance });
      }
      const present = new Set(seen.map(({ id }) => id));
      return { admitted, evicted: await evict(tx, evicted), missing: mine.filter((id) => !present.has(id)) };
    });
  },

  /** How many wait. */
  async count(site: string): Promise<number> {
    const [row] = await db.select({ n: count() }).from(waiting).where(isAlive(site));
    return row?.n ?? 0;
  },
});

export type WaitingStore = ReturnType<typeof createWaitingStore>;

/** Those that nobody is just claiming. */
const warmInstances = (tx: Transaction, site: string) =>
  tx
    .select()
    .from(instances)
    .where(and(eq(instances.site, site), eq(instances.state, 'warm')))
    .orderBy(asc(instances.createdAt))
    .for('update', { skipLocked: true });

const warmingInstances = (tx: Transaction, site: string) =>
  tx
    .select()
    .from(instances)
    .where(
      and(
        eq(instances.site, site),
        eq(instances.state, 'creating'),
        isNull(instances.boxId),
        isNotNull(instances.generation),
      ),
    );

const seat = async (
  tx: Transaction,
  { boxId, site, memoryMb }: Waiter,
  warmId: string | undefined,
  newId: () => string,
): Promise<InstanceRow | undefined> => {
  // A box that was ended just now is in the queue no more.
  const left = await tx.delete(waiting).where(eq(waiting.boxId, boxId)).returning({ id: waiting.boxId });
  if (left.length === 0) return undefined;
  const [row] =
    warmId === undefined
      ? await tx.insert(instances).values({ id: newId(), site, boxId, memoryMb, state: 'creating' }).returning()
      : await tx
          .update(instances)
          .set({ state: 'creating', boxId, memoryMb })
          .where(eq(instances.id, warmId))
          .returning();
  return row;
};

const evict = async (tx: Transaction, ids: string[]): Promise<InstanceRow[]> =>
  ids.length === 0
    ? []
    : await tx.update(instances).set({ state: 'destroying' }).where(inArray(instances.id, ids)).returning();
