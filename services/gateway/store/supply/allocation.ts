import { and, asc, eq, exists, getTableColumns, isNull, notExists, sql } from 'drizzle-orm';
import type { Limits, OnIdle } from '#contract';
import type { BoxRow } from '../box/boxes.ts';
import type { InstanceRow } from '../box/instances.ts';
import type { Database } from '../database.ts';
import { isWithout } from '../not-null.ts';
import { type BoxVolume, boxes, instances } from '../schema.ts';
import { activeTenant, notActive } from '../tenants/active-tenant.ts';
import { isWithoutVolume, noSuchVolume } from '../volumes/volumes.ts';
import { bounds, boxEnded, type Capacity, livingBox, within } from './capacity.ts';
import { someoneWaits, type Wanted } from './waiting.ts';

export interface NewBox {
  id: string;
  tenantId: string;
  userId: string | null;
  /** The user's name for it, of which a living box has one. */
  name: string | null;
  /** Claims the user's one reusable box. */
  reusable: boolean;
  template: string;
  /** The configured template whose image it has, if its template was built. */
  base: string | null;
  metadata: Record<string, string>;
  limits: Limits;
  network: 'none' | 'internet';
  volumes: BoxVolume[];
  idleSeconds: number;
  maxLifetimeSeconds: number;
  onIdle: OnIdle;
}

/** A box and its limits. */
type Sized = Pick<BoxRow, 'id' | 'tenantId' | 'limits'>;

/** Gives boxes their instances. A claimed instance is `creating` until its box is ready, and has its address from the start. */
export const createAllocationStore = (db: Database, gateway: string | null) => {
  const site = sql.placeholder('site');
  const moreMb = sql`${sql.placeholder('moreMb')}::int`;
  const noneWaits = notExists(someoneWaits(db, site, bounds, sql.placeholder('tenantId')));
  // A claim takes additional capacity, and waits for the lock, only when the box has more memory than the warm instance.
  const isRoom = sql`case when ${moreMb} > 0
    then ${moreMb} <= ${bounds.memoryMb}::int - (select memory_mb from lock_capacity(${site})) else true end`;
  const free = db.$with('free').as(
    db
      .select({ id: instances.id })
      .from(instances)
      .where(
        and(
          eq(instances.state, 'warm'),
          eq(instances.site, site),
          eq(instances.template, sql.placeholder('pool')),
          eq(instances.generation, sql.placeholder('generation')),
          // Boxes that wait come first.
          noneWaits,
          isRoom,
        ),
      )
      .orderBy(asc(instances.createdAt))
      .limit(1)
      .for('update', { skipLocked: true }),
  );

  const made = db.$with('made').as(
    db
      .insert(boxes)
      .values({
        id: sql.placeholder('id'),
        tenantId: activeTenant(sql.placeholder('tenantId')),
        userId: sql.placeholder('userId'),
        name: sql.placeholder('name'),
        reusable: sql.placeholder('reusable'),
        state: 'creating',
        gatewayId: gateway,
        template: sql.placeholder('template'),
        base: sql.placeholder('base'),
        metadata: sql.placeholder('metadata'),
        limits: sql.placeholder('limits'),
        network: sql.placeholder('network'),
        volumes: sql.placeholder('volumes'),
        idleSeconds: sql.placeholder('idleSeconds'),
        onIdle: sql.placeholder('onIdle'),
        expiresAt: sql`now() + make_interval(secs => ${sql.placeholder('maxLifetimeSeconds')})`,
      })
      .onConflictDoNothing()
      .returning(),
  );
  const taken = db.$with('taken').as(
    db
      .update(instances)
      .set({ state: 'creating', boxId: sql`(select id from made)`, memoryMb: sql`${sql.placeholder('boxMemoryMb')}` })
      .where(sql`${instances.id} = (select id from free) and exists (select from made)`)
      .returning(),
  );
  const claim = db.with(free, made, taken).select().from(made).leftJoin(taken, sql`true`).prepare('claim');

  const claimFor = db
    .with(free)
    .update(instances)
    .set({
      state: 'creating',
      boxId: sql`${sql.placeholder('box')}`,
      memoryMb: sql`${sql.placeholder('boxMemoryMb')}`,
    })
    .where(
      and(
        sql`${instances.id} = (select id from free)`,
        exists(
          db
            .select({ one: sql`1` })
            .from(boxes)
            .where(and(eq(boxes.id, sql.placeholder('box')), isNull(boxes.endedAt))),
        ),
      ),
    )
    .returning()
    .prepare('claim_for');

  const living = db.$with('living').as(livingBox(db, sql.placeholder('box')));
  const memoryMb = sql`${sql.placeholder('boxMemoryMb')}::int`;
  const reserved = db.$with('reserved', getTableColumns(instances)).as(sql`
    insert into ${instances} (id, driver, box_id, memory_mb, state)
    select ${sql.placeholder('id')}, ${site}, living.id, ${memoryMb}, 'creating'
    from living, lock_capacity(${site}) used
    where used.instances < ${bounds.instances}::int and used.memory_mb + ${memoryMb} <= ${bounds.memoryMb}::int
      and ${noneWaits}
    returning *`);
  const reserve = db.with(living, reserved).select().from(living).leftJoin(reserved, sql`true`).prepare('reserve');

  /** The values of a claim that concern capacity. */
  const sizes = (memoryMb: number, wanted: Wanted, ceiling: Capacity) => ({
    boxMemoryMb: memoryMb,
    moreMb: wanted.generation === null ? 0 : memoryMb - wanted.memoryMb,
    ...within(ceiling),
  });

  return {
    /**
     * Inserts a box and gives it a warm instance, if there is one and no box waits. It is one statement, so an instance has one owner
     * whatever happens. Returns undefined when the user already has a living reusable box, or one of this name. Throws `forbidden` for a tenant that is no
     * longer active, `not_found` when a volume is gone.
     */
    async claim(
      box: NewBox,
      wanted: Wanted,
      ceiling: Capacity,
    ): Promise<{ box: BoxRow; instance: InstanceRow | null } | undefined> {
      const { site, template: pool, generation } = wanted;
      const reusable = box.reusable ? box.userId : null;
      const [row] = await claim
        .execute({ ...box, site, pool, generation, reusable, ...sizes(box.limits.memoryMb, wanted, ceiling) })
        .catch((error: unknown) => {
          if (isWithout('tenant_id', error)) throw notActive();
          throw isWithoutVolume(error) ? noSuchVolume() : error;
        });
      return row && { box: row.made, instance: row.taken };
    },

    /** Gives an existing box that has not ended a warm instance in the same way; returns undefined when there is none. */
    async claimFor(box: Sized, wanted: Wanted, ceiling: Capacity): Promise<InstanceRow | undefined> {
      const { site, template: pool, generation } = wanted;
      const [row] = await claimFor.execute({
        site,
        pool,
        generation,
        box: box.id,
        tenantId: box.tenantId,
        ...sizes(box.limits.memoryMb, wanted, ceiling),
      });
      return row;
    },

    /**
     * Inserts the row of an instance to be created for a box. Returns undefined when the ceiling leaves no capacity for it or another box
     * waits for that capacity. Throws `gone` for a box that has ended.
     */
    async reserve(
      box: Sized,
      instance: { id: string; site: string },
      ceiling: Capacity,
    ): Promise<InstanceRow | undefined> {
      const [row] = await reserve.execute({
        ...instance,
        box: box.id,
        tenantId: box.tenantId,
        boxMemoryMb: box.limits.memoryMb,
        ...within(ceiling),
      });
      if (!row) throw boxEnded();
      return row.reserved ?? undefined;
    },
  };
};
