import { and, asc, eq, exists, isNull, notExists, sql } from 'drizzle-orm';
import type { Limits, OnIdle } from '#contract';
import type { BoxRow } from '../box/boxes.ts';
import type { InstanceRow } from '../box/instances.ts';
import type { Database } from '../database.ts';
import { isWithout } from '../not-null.ts';
import { boxes, instances } from '../schema.ts';
import { activeTenant, notActive } from '../tenants/active-tenant.ts';
import { type Capacity, freeBelow, holdLiving, holds, readTaken, underCapacityLock } from './capacity.ts';
import { someoneWaits, type Wanted } from './waiting.ts';

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

/** A box and what it may use. */
type Sized = Pick<BoxRow, 'id' | 'tenantId' | 'limits'>;

/** A ceiling, as claims name it and are told of it. */
const bounds = { instances: sql.placeholder('most'), memoryMb: sql.placeholder('mostMb') };
const within = ({ instances, memoryMb }: Capacity) => ({ most: instances, mostMb: memoryMb });

/** What claims are run on: the pool, or a transaction. */
type Runner = Pick<Database, 'with'>;

/** Which instance a box gets. A claimed one is `creating` until its box is ready, and has its address from the start. */
export const createAllocationStore = (db: Database, gateway: string | null) => {
  const free = db.$with('free').as(
    db
      .select({ id: instances.id })
      .from(instances)
      .where(
        and(
          eq(instances.state, 'warm'),
          eq(instances.site, sql.placeholder('site')),
          eq(instances.template, sql.placeholder('template')),
          eq(instances.generation, sql.placeholder('generation')),
          // Whoever has waited comes first.
          notExists(someoneWaits(db, sql.placeholder('site'), bounds, sql.placeholder('tenantId'))),
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
  const taken = db.$with('taken').as(
    db
      .update(instances)
      .set({ state: 'creating', boxId: sql`(select id from made)`, memoryMb: sql`${sql.placeholder('boxMemoryMb')}` })
      .where(sql`${instances.id} = (select id from free) and exists (select from made)`)
      .returning(),
  );
  const claimOn = (on: Runner) =>
    on.with(free, made, taken).select().from(made).leftJoin(taken, sql`true`).prepare('claim');
  const claim = claimOn(db);

  const claimForOn = (on: Runner) =>
    on
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
  const claimFor = claimForOn(db);

  /**
   * Claims for a box that is to have more memory than a warm instance has are made alone among all, and get none when there is no room
   * for the difference. The others take nothing that is not taken already.
   */
  const claiming = async <T>(
    memoryMb: number,
    wanted: Wanted,
    ceiling: Capacity,
    task: (on: Runner, wanted: Wanted) => Promise<T>,
  ): Promise<T> => {
    const moreMb = memoryMb - wanted.memoryMb;
    if (wanted.generation === null || moreMb <= 0) return await task(db, wanted);
    return await underCapacityLock(db, async (tx) => {
      const isRoom = freeBelow(ceiling, (await readTaken(tx, wanted.site)).all).memoryMb >= moreMb;
      return await task(tx, isRoom ? wanted : { ...wanted, generation: null });
    });
  };

  return {
    /**
     * Writes a box that is being made and gives it a warm instance, if there is one and nobody waits: one statement, so an
     * instance has one owner whatever happens. Undefined when the box's user already has a living reusable one. Throws `forbidden`
     * for a tenant that is not active any more.
     */
    async claim(
      box: NewBox,
      wanted: Wanted,
      ceiling: Capacity,
    ): Promise<{ box: BoxRow; instance: InstanceRow | null } | undefined> {
      const reusable = box.reusable ? box.userId : null;
      const { memoryMb } = box.limits;
      const [row] = await claiming(memoryMb, wanted, ceiling, (on, { site, generation }) =>
        (on === db ? claim : claimOn(on)).execute({
          ...box,
          site,
          generation,
          reusable,
          boxMemoryMb: memoryMb,
          ...within(ceiling),
        }),
      ).catch((error: unknown) => {
        throw isWithout('tenant_id', error) ? notActive() : error;
      });
      return row && { box: row.made, instance: row.taken };
    },

    /** Gives a box that is there and has not ended a warm instance in the same way; undefined when there is none. */
    async claimFor(box: Sized, wanted: Wanted, ceiling: Capacity): Promise<InstanceRow | undefined> {
      const { memoryMb } = box.limits;
      const [row] = await claiming(memoryMb, wanted, ceiling, (on, { site, template, generation }) =>
        (on === db ? claimFor : claimForOn(on)).execute({
          site,
          template,
          generation,
          box: box.id,
          tenantId: box.tenantId,
          boxMemoryMb: memoryMb,
          ...within(ceiling),
        }),
      );
      return row;
    },

    /**
     * Writes the row of an instance that is to be made for a box; undefined when there is no room for it below the ceiling or somebody
     * waits for that. Throws `gone` for a box that has ended.
     */
    async reserve(
      box: Sized,
      instance: { id: string; site: string },
      ceiling: Capacity,
    ): Promise<InstanceRow | undefined> {
      return await underCapacityLock(db, async (tx) => {
        const { memoryMb } = box.limits;
        if (!holds(freeBelow(ceiling, (await readTaken(tx, instance.site)).all), memoryMb)) return undefined;
        if ((await tx.execute(someoneWaits(db, instance.site, ceiling, box.tenantId))).rows.length > 0)
          return undefined;
        await holdLiving(tx, box.id);
        const [row] = await tx
          .insert(instances)
          .values({ ...instance, boxId: box.id, memoryMb, state: 'creating' })
          .returning();
        return row;
      });
    },
  };
};
