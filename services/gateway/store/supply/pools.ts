import { and, asc, count, eq, gt, inArray, isNull, ne, not, notInArray, or, sql } from 'drizzle-orm';
import type { InstanceRow } from '../box/instances.ts';
import type { Database } from '../database.ts';
import { isServing } from '../gateways.ts';
import { boxes, instances, pools } from '../schema.ts';
import { type Capacity, freeBelow, holds, memoryOf, readTaken, underCapacityLock } from './capacity.ts';
import { someoneWaits } from './waiting.ts';

/** What a pool is to hold. */
export interface PoolPlan {
  template: string;
  generation: string;
  size: number;
}

/** Instances that belong to nobody yet, and how many there are to be. */
export const createPoolStore = (db: Database, gateway: string | null) => {
  const isOfPool = and(isNull(instances.boxId), inArray(instances.state, ['creating', 'warm']));
  const isOfThisPool = and(
    isOfPool,
    eq(instances.site, pools.site),
    eq(instances.template, pools.template),
    eq(instances.generation, pools.generation),
  );
  /** How many a pool has or is about to have. */
  const depth = sql<number>`(select count(*)::int from ${instances} where ${isOfThisPool})`;

  const put = async (on: Pick<Database, 'insert'>, site: string, plan: PoolPlan): Promise<void> => {
    const { generation, size } = plan;
    await on
      .insert(pools)
      .values({ site, ...plan })
      .onConflictDoUpdate({ target: [pools.site, pools.template], set: { generation, size } });
  };

  return {
    /** Leaves a site these pools only, with what is known of them: what was started last knows best. */
    async publish(site: string, templates: readonly string[], plans: readonly PoolPlan[]): Promise<void> {
      await db.transaction(async (tx) => {
        const others = templates.length > 0 ? notInArray(pools.template, [...templates]) : undefined;
        await tx.delete(pools).where(and(eq(pools.site, site), others));
        for (const plan of plans) await put(tx, site, plan);
      });
    },

    /** What an image has become is another generation: from now on that is made, and what there is of the old one goes. */
    renew: (site: string, plan: PoolPlan): Promise<void> => put(db, site, plan),

    /** The pools of a site that have fewer instances than they are to have, the emptiest first. */
    async lacking(site: string): Promise<PoolPlan[]> {
      return await db
        .select({ template: pools.template, generation: pools.generation, size: pools.size })
        .from(pools)
        .where(and(eq(pools.site, site), sql`${depth} < ${pools.size}`))
        .orderBy(sql`${depth}::float / ${pools.size}`)
        .limit(100);
    },

    /**
     * Writes the row of a warm instance that is to be made; false when its pool has what it is to have, there is no room below the
     * ceiling, or somebody waits for that. Whatever is being made or destroyed is counted.
     */
    async reserve(
      site: string,
      { template, generation, memoryMb }: Pick<PoolPlan, 'template' | 'generation'> & { memoryMb: number },
      id: string,
      ceiling: Capacity,
    ): Promise<boolean> {
      return await underCapacityLock(db, async (tx) => {
        if (!holds(freeBelow(ceiling, (await readTaken(tx, site)).all), memoryMb)) return false;
        if ((await tx.execute(someoneWaits(db, site, ceiling))).rows.length > 0) return false;
        const lacks = await tx
          .select({ one: sql`1` })
          .from(pools)
          .where(
            and(
              eq(pools.site, site),
              eq(pools.template, template),
              eq(pools.generation, generation),
              sql`${depth} < ${pools.size}`,
            ),
          );
        if (lacks.length === 0) return false;
        await tx
          .insert(instances)
          .values({ id, site, template, generation, memoryMb, state: 'creating', gatewayId: gateway });
        return true;
      });
    },

    /** `creating` → `warm`: from now on it can be claimed. False when it was given up meanwhile. */
    async admit(id: string, address: string): Promise<boolean> {
      const rows = await db
        .update(instances)
        .set({ state: 'warm', address })
        .where(and(eq(instances.id, id), eq(instances.state, 'creating'), isNull(instances.boxId)))
        .returning({ id: instances.id });
      return rows.length > 0;
    },

    /** A page of a site's warm instances, by their ids. */
    async warm(site: string, after: string, limit: number): Promise<InstanceRow[]> {
      return await db
        .select()
        .from(instances)
        .where(and(eq(instances.site, site), eq(instances.state, 'warm'), gt(instances.id, after)))
        .orderBy(asc(instances.id))
        .limit(limit);
    },

    /** Takes a warm instance out of its pool, to be destroyed; false when it has been claimed meanwhile. */
    async discard(id: string): Promise<boolean> {
      const rows = await db
        .update(instances)
        .set({ state: 'destroying' })
        .where(and(eq(instances.id, id), eq(instances.state, 'warm')))
        .returning({ id: instances.id });
      return rows.length > 0;
    },

    /**
     * Takes up to `limit` instances of a site out of the pools, to be destroyed: those of another generation or of no pool at
     * all, those that are too many, and those that are `creating` for longer than `givenUpMs`, or whose gateway died while it made them.
     * One that is just being made is given up.
     */
    async drain(site: string, limit: number, givenUpMs: number): Promise<InstanceRow[]> {
      const ranked = db
        .select({
          id: instances.id,
          rank: sql<number>`row_number() over (partition by ${instances.template}, ${instances.generation} order by ${instances.state} desc, ${instances.createdAt})`.as(
            'rank',
          ),
          size: sql<number>`coalesce(${pools.size}, 0)`.as('size'),
        })
        .from(instances)
        .leftJoin(
          pools,
          and(
            eq(pools.site, instances.site),
            eq(pools.template, instances.template),
            eq(pools.generation, instances.generation),
          ),
        )
        .where(and(eq(instances.site, site), isOfPool))
        .as('ranked');
      const surplus = db
        .select({ id: ranked.id })
        .from(ranked)
        .where(sql`${ranked.rank} > ${ranked.size}`)
        .limit(limit);
      const isOld = sql`${instances.createdAt} < now() - make_interval(secs => ${givenUpMs / 1000})`;
      const isAbandoned = and(eq(instances.state, 'creating'), or(isOld, not(isServing(instances.gatewayId))));
      return await db
        .update(instances)
        .set({ state: 'destroying' })
        .where(and(eq(instances.site, site), isOfPool, or(inArray(instances.id, surplus), isAbandoned)))
        .returning();
    },

    /** The number of instances by pool and state, how many there are to be, and the memory of all instances, for the metrics. */
    async census(site: string) {
      const found = await db
        .select({ template: instances.template, state: instances.state, n: count() })
        .from(instances)
        .where(and(eq(instances.site, site), isNull(instances.boxId), ne(instances.state, 'running')))
        .groupBy(instances.template, instances.state);
      const wanted = await db
        .select({ template: pools.template, size: pools.size })
        .from(pools)
        .where(eq(pools.site, site));
      const [all] = await db
        .select({ promisedMb: sql<number>`coalesce(sum(${memoryOf()}), 0)::float8` })
        .from(instances)
        .leftJoin(boxes, eq(boxes.id, instances.boxId))
        .where(eq(instances.site, site));
      return { found, wanted, promisedMb: all?.promisedMb ?? 0 };
    },
  };
};

export type PoolStore = ReturnType<typeof createPoolStore>;
