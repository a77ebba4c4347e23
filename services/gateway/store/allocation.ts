import { and, asc, eq, exists, isNull, notExists, sql } from 'drizzle-orm';
import type { Limits, OnIdle } from '#contract';
import type { BoxRow } from './boxes.ts';
import { countInstances, holdLiving, underCapacityLock } from './capacity.ts';
import type { Database } from './database.ts';
import type { InstanceRow } from './instances.ts';
import { boxes, instances } from './schema.ts';
import { someoneWaits } from './waiting.ts';

export interface NewBox {
  id: string;
  tenantId: string;
  userId: string | null;
  /** Claims the user's one reusable box. */
  reusable: boolean;
  template: string;
  metadata: Record<string, string>;
  limits: Limits;
  network: 'none' | 'internet';
  idleSeconds: number;
  maxLifetimeSeconds: number;
  onIdle: OnIdle;
}

/** The warm instances that would do for a box: of this pool. `generation` is null when none would. */
export interface Wanted {
  driver: string;
  template: string;
  generation: string | null;
}

/** Which instance a box gets. A claimed one is `creating` until its box is ready, and has its address from the start. */
export const createAllocationStore = (db: Database, gateway: string | null) => {
  const free = db.$with('free').as(
    db
      .select({ id: instances.id })
      .from(instances)
      .where(
        and(
          eq(instances.state, 'warm'),
          eq(instances.driver, sql.placeholder('driver')),
          eq(instances.template, sql.placeholder('template')),
          eq(instances.generation, sql.placeholder('generation')),
          // Whoever has waited comes first.
          notExists(someoneWaits(db)),
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
        tenantId: sql.placeholder('tenantId'),
        userId: sql.placeholder('userId'),
        reusable: sql.placeholder('reusable'),
        state: 'creating',
        gatewayId: gateway,
        template: sql.placeholder('template'),
        metadata: sql.placeholder('metadata'),
        limits: sql.placeholder('limits'),
        network: sql.placeholder('network'),
        idleSeconds: sql.placeholder('idleSeconds'),
        onIdle: sql.placeholder('onIdle'),
        expiresAt: sql`now() + make_interval(secs => ${sql.placeholder('maxLifetimeSeconds')})`,
      })
      .onConflictDoNothing()
      .returning(),
  );
  const taken = db
    .$with('taken')
    .as(
      db
        .update(instances)
        .set({ state: 'creating', boxId: sql`(select id from made)` })
        .where(sql`${instances.id} = (select id from free) and exists (select from made)`)
        .returning(),
    );
  const claim = db.with(free, made, taken).select().from(made).leftJoin(taken, sql`true`).prepare('claim');

  const claimFor = db
    .with(free)
    .update(instances)
    .set({ state: 'creating', boxId: sql`${sql.placeholder('box')}` })
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

  return {
    /**
     * Writes a box that is being made and gives it a warm instance, if there is one and nobody waits: one statement, so an
     * instance has one owner whatever happens. Undefined when the box's user already has a living reusable one.
     */
    async claim(box: NewBox, wanted: Wanted): Promise<{ box: BoxRow; instance: InstanceRow | null } | undefined> {
      const reusable = box.reusable ? box.userId : null;
      const [row] = await claim.execute({ ...box, ...wanted, reusable });
      return row && { box: row.made, instance: row.taken };
    },

    /** Gives a box that is there and has not ended a warm instance in the same way; undefined when there is none. */
    async claimFor(boxId: string, wanted: Wanted): Promise<InstanceRow | undefined> {
      const [row] = await claimFor.execute({ ...wanted, box: boxId });
      return row;
    },

    /**
     * Writes the row of an instance that is to be made for a box; undefined when there are `maxInstances` already or somebody
     * waits for one. Throws `gone` for a box that has ended.
     */
    async reserve(
      boxId: string,
      instance: { id: string; driver: string },
      maxInstances: number,
    ): Promise<InstanceRow | undefined> {
      return await underCapacityLock(db, async (tx) => {
        if ((await countInstances(tx)) >= maxInstances) return undefined;
        if ((await tx.execute(someoneWaits(db))).rows.length > 0) return undefined;
        await holdLiving(tx, boxId);
        const [row] = await tx
          .insert(instances)
          .values({ ...instance, boxId, state: 'creating' })
          .returning();
        return row;
      });
    },
  };
};

export type AllocationStore = ReturnType<typeof createAllocationStore>;
