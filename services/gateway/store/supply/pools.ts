import { and, asc, count, eq, gt, inArray, isNull, ne, not, notExists, notInArray, or, sql, sum } from 'drizzle-orm';
import type { InstanceRow } from '../box/instances.ts';
import type { Database } from '../database.ts';
import { isServing } from '../gateways.ts';
import { instances, pools } from '../schema.ts';
import { templates } from '../schema-templates.ts';
import { bounds, type Capacity, within } from './capacity.ts';
import { someoneWaits } from './waiting.ts';

/** The target of a pool. */
export interface PoolPlan {
  template: string;
  generation: string;
  size: number;
}

/** Warm instances, which belong to no box yet, and the target of each pool. */
export const createPoolStore = (db: Database, gateway: string | null) => {
  const isOfPool = and(isNull(instances.boxId), inArray(instances.state, ['creating', 'warm']));
  const isOfThisPool = and(
    isOfPool,
    eq(instances.site, pools.site),
    eq(instances.template, pools.template),
    eq(instances.generation, pools.generation),
  );
  /** The number of instances that a pool has, including those that are being created. */
  const depth = sql<number>`(select count(*)::int from ${instances} where ${isOfThisPool})`;

  const site = sql.placeholder('site');
  const [template, generation] = [sql.placeholder('template'), sql.placeholder('generation')];
  const memoryMb = sql`${sql.placeholder('memoryMb')}::int`;
  const places = db.$with('places').as(
    db
      .select({
        count: sql<number>`least(
          ${bounds.instances}::int - used.instances,
          floor((${bounds.memoryMb}::int - used.memory_mb) / ${memoryMb}),
          ${pools.size} - used.pooled
        )`.as('count'),
      })
      .from(pools)
      .innerJoin(sql`lock_capacity(${site}, ${template}, ${generation}) used`, sql`true`)
      .where(
        and(
          eq(pools.site, site),
          eq(pools.template, template),
          eq(pools.generation, generation),
          notExists(someoneWaits(db, site, bounds)),
        ),
      ),
  );
  const reserved = db.$with('reserved', { id: instances.id }).as(sql`
    insert into ${instances} (id, driver, template, generation, memory_mb, state, gateway_id)
    select id, ${site}, ${template}, ${generation}, ${memoryMb}, 'creating', ${gateway}
    from ${places}, unnest(${sql.placeholder('ids')}::text[]) with ordinality as wanted (id, nth)
    where nth <= ${places.count}
    returning id`);
  const reserve = db.with(places, reserved).select().from(reserved).prepare('reserve_places');

  const put = async (on: Pick<Database, 'insert'>, site: string, plan: PoolPlan): Promise<void> => {
    const { generation, size } = plan;
    await on
      .insert(pools)
      .values({ site, ...plan })
      .onConflictDoUpdate({ target: [pools.site, pools.template], set: { generation, size } });
  };

  return {
    /** Replaces the pools of a site: those of other templates are deleted. The gateway that started last decides. */
    async publish(site: string, templates: readonly string[], plans: readonly PoolPlan[]): Promise<void> {
      await db.transaction(async (tx) => {
        const others = templates.length > 0 ? notInArray(pools.template, [...templates]) : undefined;
        await tx.delete(pools).where(and(eq(pools.site, site), others));
        for (const plan of plans) await put(tx, site, plan);
      });
    },

    /** Sets a new generation of a pool after its image has changed: from now on that is created, and older instances are drained. */
    renew: (site: string, plan: PoolPlan): Promise<void> => put(db, site, plan),

    /** Deletes pools of templates that are deleted; their instances are drained. */
    async drop(site: string, templates: readonly string[]): Promise<void> {
      await db.delete(pools).where(and(eq(pools.site, site), inArray(pools.template, [...templates])));
    },

    /** Returns the pools of a site that are below their target: those named `first`, then the emptiest; without those that are paused. */
    async belowTarget(
      site: string,
      first: readonly string[] = [],
      paused: readonly string[] = [],
    ): Promise<PoolPlan[]> {
      return await db
        .select({ template: pools.template, generation: pools.generation, size: pools.size })
        .from(pools)
        .where(
          and(
            eq(pools.site, site),
            sql`${depth} < ${pools.size}`,
            sql`${pools.template} <> all(${sql.param([...paused])}::text[])`,
          ),
        )
        .orderBy(
          sql`${pools.template} = any(${sql.param([...first])}::text[]) desc`,
          sql`${depth}::float / ${pools.size}`,
        )
        .limit(100);
    },

    /**
     * Inserts the rows of warm instances to be created, and returns the ids for which there was room: fewer when the pool becomes full or
     * the ceiling leaves less capacity, none when a box waits for it. Instances that are being created or destroyed count.
     */
    async reserve(
      site: string,
      pool: Pick<PoolPlan, 'template' | 'generation'> & { memoryMb: number },
      ids: readonly string[],
      ceiling: Capacity,
    ): Promise<string[]> {
      const rows = await reserve.execute({ site, ...pool, ids, ...within(ceiling) });
      return rows.map(({ id }) => id);
    },

    /** `creating` → `warm`: the instance can be claimed from now on. Returns false when it was given up meanwhile. */
    async admit(id: string, address: string): Promise<boolean> {
      const rows = await db
        .update(instances)
        .set({ state: 'warm', address })
        .where(and(eq(instances.id, id), eq(instances.state, 'creating'), isNull(instances.boxId)))
        .returning({ id: instances.id });
      return rows.length > 0;
    },

    /** Returns a page of a site's warm instances, by id. */
    async warm(site: string, after: string, limit: number): Promise<InstanceRow[]> {
      return await db
        .select()
        .from(instances)
        .where(and(eq(instances.site, site), eq(instances.state, 'warm'), gt(instances.id, after)))
        .orderBy(asc(instances.id))
        .limit(limit);
    },

    /** Marks an instance of a pool for destruction; returns false when it was claimed or given up meanwhile. */
    async discard(id: string): Promise<boolean> {
      const rows = await db
        .update(instances)
        .set({ state: 'destroying' })
        .where(and(eq(instances.id, id), isOfPool))
        .returning({ id: instances.id });
      return rows.length > 0;
    },

    /**
     * Marks instances of a site's pools for destruction and returns them: up to `limit` that are of another generation, of no pool, or above
     * the target, and those that have been `creating` for longer than `givenUpMs` or whose gateway died. Surplus instances that are still
     * being created are included. Instances for a template of a tenant, which may run its code, are replaced after a day.
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
      const aged = db
        .select({ id: instances.id })
        .from(instances)
        .innerJoin(templates, eq(templates.id, instances.template))
        .where(and(eq(instances.site, site), isOfPool, sql`${instances.createdAt} < now() - interval '1 day'`))
        .limit(limit);
      return await db
        .update(instances)
        .set({ state: 'destroying' })
        .where(
          and(
            eq(instances.site, site),
            isOfPool,
            or(inArray(instances.id, surplus), inArray(instances.id, aged), isAbandoned),
          ),
        )
        .returning();
    },

    /** Counts the instances by pool and state, with the targets and the memory of all instances, for the metrics. */
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
        .select({ promisedMb: sum(instances.memoryMb).mapWith(Number) })
        .from(instances)
        .where(eq(instances.site, site));
      return { found, wanted, promisedMb: all?.promisedMb ?? 0 };
    },
  };
};

export type PoolStore = ReturnType<typeof createPoolStore>;
