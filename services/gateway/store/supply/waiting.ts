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
import { boxEnded, type Capacity, freeBelow, livingBox, lockCapacity, type Transaction } from './capacity.ts';
import { type Placement, planPlacement, type Waiter } from './placement.ts';

/** A gateway renews its waiting boxes several times a second; boxes that were not renewed for this long are ignored. */
const goneSeconds = 3;
/** The most boxes that may wait, in all and for one tenant. */
const maxWaiting = 1000;
const maxWaitingOfTenant = 200;

const isAlive = (site: string | Placeholder) =>
  and(
    eq(waiting.site, site),
    gt(waiting.seenAt, sql`now() - make_interval(secs => ${goneSeconds})`),
    gt(waiting.until, sql`now()`),
  );

const memoryMb = sql<number>`(${boxes.limits} ->> 'memoryMb')::int`;
/** True after half of the waiting time: before, others may pass; after, there is still time for capacity to become free. */
const isUrgent = sql<boolean>`now() > ${waiting.createdAt} + (${waiting.until} - ${waiting.createdAt}) / 2`;

const inTurn = [asc(waiting.turn), asc(waiting.createdAt), asc(waiting.boxId)];

/** A ceiling, or its placeholders in a prepared statement. */
type Bounds = Record<keyof Capacity, number | Placeholder>;

/** The memory that one more box of a tenant could have if no other tenant had any box. */
const couldHave = (db: Pick<Database, 'select'>, site: string | Placeholder, tenantId: SQLWrapper, ceiling: Bounds) => {
  const owned = alias(boxes, 'owned');
  const left = sql`${ceiling.memoryMb}::int - coalesce(sum(${instances.memoryMb}), 0)`;
  const own = db
    .select({ mb: sql`case when count(*) < ${ceiling.instances}::int then ${left} else 0 end` })
    .from(instances)
    .innerJoin(owned, eq(owned.id, instances.boxId))
    .where(and(sql`${owned.tenantId} = ${tenantId}`, eq(instances.site, site), ne(instances.state, 'destroying')));
  return sql<number>`${own}::float8`;
};

/**
 * Selects a row when a box waits at the site that comes before a new request of `tenantId`: any box of the same tenant, or a box of a
 * tenant whose first waiting box could be placed without freeing boxes of its own.
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

/** The pool whose warm instances fit a box; `generation` is null when none would. */
export interface Wanted {
  site: string;
  /** The id of the template, which is the name of its pool. */
  template: string;
  generation: string | null;
  /** The memory of each of these instances. */
  memoryMb: number;
}

/** A box that waits no longer, with its instance: a warm one has an address, any other is still to be created. */
export interface Admission {
  boxId: string;
  instance: InstanceRow;
}

/**
 * The queue for capacity, shared by all gateways of a site. Each turn has one box of every waiting tenant, so a tenant with many boxes does
 * not delay the others by all of them.
 */
export const createWaitingStore = (db: Database) => ({
  /**
   * Adds a box to the queue; returns false when the queue is full. The caller has to call `admit` repeatedly. Throws `gone` for a box that
   * has ended.
   */
  async join(box: Pick<BoxRow, 'id' | 'tenantId'>, wanted: Wanted, waitMs: number): Promise<boolean> {
    const { site, template, generation } = wanted;
    // Its gateway removes the box in time; this covers a gateway that cannot.
    const until = sql`now() + make_interval(secs => ${waitMs / 1000 + goneSeconds})`;
    const living = db.$with('living').as(livingBox(db, box.id));
    // On a conflict the response to an earlier call was lost; the box keeps its turn.
    const joined = db.$with('joined', { id: waiting.boxId }).as(sql`
      insert into ${waiting} (box_id, tenant_id, driver, template, generation, turn, until)
      select living.id, ${box.tenantId}, ${site}, ${template}, ${generation}, next.turn, ${until}
      from living, next_turn(${site}, ${box.tenantId}, ${goneSeconds}) next
      where next.waiting < ${maxWaiting} and next.waiting_of_tenant < ${maxWaitingOfTenant}
      on conflict (box_id) do update set
        driver = excluded.driver, template = excluded.template, generation = excluded.generation,
        until = excluded.until, seen_at = now()
      returning box_id`);
    const [row] = await db.with(living, joined).select().from(living).leftJoin(joined, sql`true`);
    if (!row) throw boxEnded();
    return row.joined !== null;
  },

  /** Removes a box from the queue; returns false when it was admitted already or is not in the queue. */
  async leave(boxId: string): Promise<boolean> {
    return (await db.delete(waiting).where(eq(waiting.boxId, boxId)).returning({ id: waiting.boxId })).length > 0;
  },

  /**
   * Renews the waiting boxes of this gateway (`mine`) and admits those whose turn it is. When capacity is short, warm instances that no
   * waiting box can use are `evicted`: the caller has to destroy them. `newId` provides the id of an instance to be created. `missing`
   * boxes are no longer in the queue because they have ended.
   */
  async admit(
    site: string,
    mine: readonly string[],
    ceiling: Capacity,
    newId: () => string,
  ): Promise<{ admitted: Admission[]; evicted: InstanceRow[]; missing: string[] }> {
    const seen = await db
      .update(waiting)
      .set({ seenAt: sql`now()` })
      .where(inArray(waiting.boxId, [...mine]))
      .returning({ id: waiting.boxId });
    const present = new Set(seen.map(({ id }) => id));
    const missing = mine.filter((id) => !present.has(id));
    return await db.transaction(async (tx) => {
      const { all, ending } = await lockCapacity(tx, site);
      const { placed, evicted } = planPlacement(await queueOf(tx, site, ceiling), {
        ceiling,
        free: freeBelow(ceiling, all),
        ending,
        warm: await warmInstances(tx, site),
        warming: await warmingInstances(tx, site),
      });
      const own = placed.filter(({ waiter }) => present.has(waiter.boxId));
      return { admitted: await place(tx, own, newId), evicted: await evict(tx, evicted), missing };
    });
  },

  /** Returns the number of waiting boxes. */
  async count(site: string): Promise<number> {
    const [row] = await db.select({ n: count() }).from(waiting).where(isAlive(site));
    return row?.n ?? 0;
  },
});

export type WaitingStore = ReturnType<typeof createWaitingStore>;

/** Selects the waiting boxes in their order. */
const queueOf = (tx: Transaction, site: string, ceiling: Capacity) => {
  const mostMb = couldHave(tx, site, waiting.tenantId, ceiling).as('most_mb');
  const tenants = tx
    .select({ id: waiting.tenantId, mostMb })
    .from(waiting)
    .where(isAlive(site))
    .groupBy(waiting.tenantId)
    .as('tenants');
  return tx
    .select({
      ...getTableColumns(waiting),
      memoryMb,
      isUrgent,
      couldFit: sql<boolean>`${memoryMb} <= ${tenants.mostMb}`,
    })
    .from(waiting)
    .innerJoin(boxes, eq(boxes.id, waiting.boxId))
    .innerJoin(tenants, eq(tenants.id, waiting.tenantId))
    .where(isAlive(site))
    .orderBy(...inTurn)
    .limit(maxWaiting);
};

/** Selects the warm instances that no claim has locked. */
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

/** Gives waiting boxes their instances. */
const place = async (
  tx: Transaction,
  placed: Placement<Waiter>['placed'],
  newId: () => string,
): Promise<Admission[]> => {
  if (placed.length === 0) return [];
  const ids = placed.map(({ waiter }) => waiter.boxId);
  // A box that has just ended is no longer in the queue.
  const left = await tx.delete(waiting).where(inArray(waiting.boxId, ids)).returning({ id: waiting.boxId });
  const queued = new Set(left.map(({ id }) => id));
  const values = placed
    .filter(({ waiter }) => queued.has(waiter.boxId))
    .map(({ waiter: { boxId, site, memoryMb }, warmId }) => {
      return { id: warmId ?? newId(), site, boxId, memoryMb, state: 'creating' as const };
    });
  if (values.length === 0) return [];
  const rows = await tx
    .insert(instances)
    .values(values)
    // A warm instance has its row already.
    .onConflictDoUpdate({
      target: instances.id,
      set: { state: 'creating', boxId: sql`excluded.box_id`, memoryMb: sql`excluded.memory_mb` },
    })
    .returning();
  return rows.flatMap((instance) => (instance.boxId === null ? [] : [{ boxId: instance.boxId, instance }]));
};

const evict = async (tx: Transaction, ids: string[]): Promise<InstanceRow[]> =>
  ids.length === 0
    ? []
    : await tx.update(instances).set({ state: 'destroying' }).where(inArray(instances.id, ids)).returning();
