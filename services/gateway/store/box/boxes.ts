import { and, asc, count, eq, gt, inArray, isNotNull, isNull, not, notExists, or, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { type BoxCause, maxLifetimeSeconds, type OnIdle, type UpdateBox } from '#contract';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { isServing, type Share } from '../gateways.ts';
import { boxes, executions, instances, waiting } from '../schema.ts';
import { activeTenant } from '../tenants/active-tenant.ts';
import { type BoxFilter, isLiving, listBoxes, living } from './box-list.ts';
import { type BoxRow, type FoundBox, isCurrent, isDue, runningFirst } from './found-box.ts';
import { createOwnBoxes } from './own-boxes.ts';

export type { BoxRow, FoundBox };

/** How a box got its instance, how long that took, and the CPU time used until then, which is not charged; null when unknown. */
export interface Startup {
  kind: 'warm' | 'cold';
  ms: number;
  cpuMs: number | null;
}

/** How long after its maximum lifetime a box is left to the site where it runs. */
const otherSiteSeconds = 60;
/** How long after its idle time a box that does not report its activity is left alone. */
const silentSeconds = 60;
/** The cause of the end of a box that has reached its maximum lifetime. */
export const expired = { code: 'expired', detail: 'The box reached its maximum lifetime.' } as const satisfies BoxCause;
/** Condition on a box: it has this instance, which is not being destroyed. */
export const hasInstance = (instance: string) =>
  sql`exists (select from ${instances} where ${instances.id} = ${instance} and ${instances.boxId} = ${boxes.id} and ${instances.state} <> 'destroying')`;
/** Condition on a box: it has no current or future instance at another site. */
export const isInReach = (site: string, boxId: PgColumn = boxes.id) =>
  sql<boolean>`not exists (select from ${instances} where ${instances.boxId} = ${boxId} and ${instances.site} <> ${site} and ${instances.state} <> 'destroying')`;
/** Condition on instances joined with boxes: running instances of ready boxes, with ids after `after`. */
export const runsReadyBox = (site: string, after: string) =>
  and(eq(instances.site, site), eq(instances.state, 'running'), eq(boxes.state, 'ready'), gt(instances.id, after));
/** A ready box, with the id and the address of its instance. */
export interface BoxWithInstance {
  box: BoxRow;
  instance: string;
  address: string | null;
}

/** The fields of a box that are cleared at its end: its task, and its blob, which becomes a stray. */
const clearedAtEnd = {
  task: null,
  taskId: null,
  taskSince: null,
  taskUntil: null,
  checkpointId: null,
  checkpointAt: null,
  storageBytes: 0,
} as const;
/**
 * Marks the instances of an ended box for destruction. A box without any (hibernated, or waiting for capacity) is `deleted` at once. The
 * update itself finds the instances: an earlier read could see one whose row is just being deleted, and the box would wait for it for ever.
 */
const releaseInstances = async (tx: Pick<Database, 'update'>, box: BoxRow): Promise<BoxRow> => {
  const released = await tx
    .update(instances)
    .set({ state: 'destroying' })
    .where(eq(instances.boxId, box.id))
    .returning({ id: instances.id });
  if (released.length > 0 || box.state !== 'deleting') return box;
  const [deleted] = await tx.update(boxes).set({ state: 'deleted' }).where(eq(boxes.id, box.id)).returning();
  return deleted ?? box;
};
/**
 * Returns the value of `startup_cpu_ms` for a box whose instance used this CPU time for its start, or 0 while that is unknown: the use of its
 * earlier instances counts too. The column holds 24 days; what they used beyond that is not counted.
 */
export const startupAfterEarlier = (cpuMs: SQL): SQL =>
  sql`greatest(${cpuMs} - ${boxes.spentCpuMs}, -2147483648)::integer`;
const inSeconds = (seconds: SQL | number) => sql`now() + make_interval(secs => ${seconds})`;

/** Boxes and their instances. Every change of a box's state is a compare-and-set that increases `version`. */
export const createBoxStore = (db: Database) => {
  const selectWithInstance = db
    .select({ box: boxes, instance: instances, isDue })
    .from(boxes)
    .leftJoin(instances, isCurrent)
    .where(and(eq(boxes.id, sql.placeholder('box')), eq(boxes.tenantId, sql.placeholder('tenant'))))
    .orderBy(runningFirst)
    .limit(1)
    .prepare('box_with_instance');
  const running = db
    .select({ one: sql`1` })
    .from(executions)
    .where(and(eq(executions.boxId, boxes.id), eq(executions.status, 'running')));
  /** Ready, without a running execution, and past its idle time by at least `lateMs`, the delay with which use is recorded. */
  const isIdle = (lateMs: number) =>
    and(
      eq(boxes.state, 'ready'),
      sql`${boxes.lastActiveAt} + make_interval(secs => ${boxes.idleSeconds} + ${lateMs / 1000}::float8) <= now()`,
      notExists(running),
    );

  const ready = db.$with('ready').as(
    db
      .update(boxes)
      .set({
        state: 'ready',
        version: sql`${boxes.version} + 1`,
        startupKind: sql`${sql.placeholder('kind')}`,
        startupMs: sql`${sql.placeholder('ms')}`,
        startupCpuMs: sql`coalesce(${sql.placeholder('cpuMs')}::integer, ${boxes.startupCpuMs})`,
        lastActiveAt: sql`now()`,
      })
      .where(
        and(
          eq(boxes.id, sql.placeholder('id')),
          eq(boxes.state, 'creating'),
          // The instance has not been given up meanwhile.
          sql`exists (select from ${instances} where ${instances.id} = ${sql.placeholder('instance')} and ${instances.state} = 'creating')`,
        ),
      )
      .returning(),
  );
  const ran = db.$with('ran').as(
    db
      .update(instances)
      .set({ state: 'running', address: sql`${sql.placeholder('address')}` })
      .where(
        sql`${instances.id} = ${sql.placeholder('instance')} and ${instances.state} = 'creating' and exists (select from ready)`,
      )
      .returning(),
  );
  const markReady = db.with(ready, ran).select().from(ready).prepare('box_ready');

  // Locked in the order of ids, so that two gateways cannot deadlock. Written after each short run, so it is prepared.
  const used = db
    .select({ id: boxes.id })
    .from(boxes)
    .where(and(sql`${boxes.id} = any(${sql.placeholder('ids')}::text[])`, inArray(boxes.state, ['ready', 'creating'])))
    .orderBy(asc(boxes.id))
    .for('no key update');
  const touchAll = db
    .update(boxes)
    .set({ lastActiveAt: sql`now()` })
    .where(inArray(boxes.id, used))
    .returning({ id: boxes.id })
    .prepare('boxes_touch');

  return {
    ...createOwnBoxes(db),

    /** Records the CPU time that the instance of a box had used when the box became ready: that time is not charged. */
    async noteStartup(id: string, instance: string, cpuMs: number): Promise<void> {
      await db
        .update(boxes)
        .set({ startupCpuMs: startupAfterEarlier(sql`${cpuMs}::bigint`) })
        .where(and(eq(boxes.id, id), hasInstance(instance)));
    },

    /** Deletes a box that never got an instance. */
    async withdraw(id: string): Promise<void> {
      await db.delete(boxes).where(and(eq(boxes.id, id), eq(boxes.state, 'creating')));
    },

    /** Finds a box of this tenant, with its instance if it has one. */
    async find(tenantId: string, id: string): Promise<FoundBox | undefined> {
      const [row] = await selectWithInstance.execute({ box: id, tenant: tenantId });
      return row;
    },

    /** Whether a box with this id has ended. */
    async hasEnded(id: string): Promise<boolean> {
      const isEnded = and(eq(boxes.id, id), isNotNull(boxes.endedAt));
      return (await db.select({ id: boxes.id }).from(boxes).where(isEnded)).length > 0;
    },

    list: (tenantId: string, filter: BoxFilter) => listBoxes(db, tenantId, filter),

    /** `creating` → `ready`, with the time of its start, in one statement. Returns undefined when the box was deleted meanwhile. */
    async markReady(id: string, instance: { id: string; address: string }, took: Startup): Promise<BoxRow | undefined> {
      const [row] = await markReady.execute({ id, instance: instance.id, address: instance.address, ...took });
      return row;
    },

    /**
     * Moves a living box towards its end; with `instance`, only while that is its instance. Returns undefined when the box has ended
     * already.
     */
    async end(
      id: string,
      state: 'deleting' | 'failed' | 'lost',
      cause: BoxCause,
      instance?: string,
    ): Promise<BoxRow | undefined> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(boxes)
          .set({
            state,
            cause,
            version: sql`${boxes.version} + 1`,
            endedAt: sql`now()`,
            ...clearedAtEnd,
          })
          .where(
            and(
              eq(boxes.id, id),
              inArray(boxes.state, living),
              instance === undefined ? undefined : hasInstance(instance),
            ),
          )
          .returning();
        if (!row) return undefined;
        await tx.delete(waiting).where(eq(waiting.boxId, id));
        return await releaseInstances(tx, row);
      });
    },

    /** Returns undefined when there is no such box, it has ended, or its tenant is no longer active. */
    async update(tenantId: string, id: string, change: Omit<UpdateBox, 'network'>): Promise<BoxRow | undefined> {
      const [row] = await db
        .update(boxes)
        .set({
          ...(change.metadata && { metadata: change.metadata }),
          ...(change.idleSeconds && { idleSeconds: change.idleSeconds }),
          ...(change.onIdle && { onIdle: change.onIdle }),
          ...(change.maxLifetimeSeconds && {
            expiresAt: sql`${boxes.createdAt} + make_interval(secs => ${change.maxLifetimeSeconds})`,
          }),
          version: sql`${boxes.version} + 1`,
        })
        .where(and(sql`${boxes.tenantId} = ${activeTenant(tenantId)}`, eq(boxes.id, id), inArray(boxes.state, living)))
        .returning();
      return row;
    },

    /**
     * Moves the end of a living box to `seconds` from now, or leaves it where it is later and `extendsOnly`; never past the longest
     * lifetime of a box. This counts as use. Returns undefined as `update` does.
     */
    async endIn(tenantId: string, id: string, seconds: number, extendsOnly: boolean): Promise<BoxRow | undefined> {
      const asked = inSeconds(seconds);
      const end = extendsOnly ? sql`greatest(${boxes.expiresAt}, ${asked})` : asked;
      const [row] = await db
        .update(boxes)
        .set({
          expiresAt: sql`least(${end}, ${boxes.createdAt} + make_interval(secs => ${maxLifetimeSeconds}))`,
          lastActiveAt: sql`now()`,
          version: sql`${boxes.version} + 1`,
        })
        .where(and(sql`${boxes.tenantId} = ${activeTenant(tenantId)}`, eq(boxes.id, id), inArray(boxes.state, living)))
        .returning();
      return row;
    },

    /** Records use of boxes by the database's clock; returns the ids of those that are creating or ready. */
    async touch(ids: string[]): Promise<string[]> {
      if (ids.length === 0) return [];
      return (await touchAll.execute({ ids })).map(({ id }) => id);
    },

    /**
     * Returns some boxes in reach of the site whose recorded idle time has passed and whose `onIdle` is one of these. They are chosen at
     * random, so that a box that does not respond delays no other. Activity may be known only to the box itself; `isSilent` marks a box
     * without recorded use for long after its idle time.
     */
    async idle(site: string, onIdle: readonly OnIdle[], lagMs: number, limit: number) {
      return await db
        .select({
          id: boxes.id,
          tenantId: boxes.tenantId,
          instance: instances.id,
          address: instances.address,
          isSilent: sql<boolean>`${isIdle(lagMs + silentSeconds * 1000)}`,
        })
        .from(boxes)
        .leftJoin(instances, and(eq(instances.boxId, boxes.id), eq(instances.state, 'running')))
        .where(and(isLiving, inArray(boxes.onIdle, [...onIdle]), isNull(boxes.task), isIdle(lagMs), isInReach(site)))
        .orderBy(sql`random()`)
        .limit(limit);
    },

    /**
     * Moves up to `limit` boxes to `deleting`: those past their maximum lifetime, and those of `quiet` past their idle time. Rows that
     * another gateway has locked are skipped. A box with a running execution is not idle, and the idle time is extended by `lagMs`, the
     * delay with which other gateways record use. A box at another site is left to that site for a minute, which can read its last results.
     */
    async endOverdue(site: string, quiet: readonly string[], limit: number, lagMs: number): Promise<BoxRow[]> {
      const isPast = sql<boolean>`${boxes.expiresAt} <= now()`;
      const isLongPast = sql`${boxes.expiresAt} <= ${inSeconds(-otherSiteSeconds)}`;
      const overdue = and(
        isLiving,
        or(
          and(inArray(boxes.state, ['ready', 'paused', 'hibernated']), isPast, or(isInReach(site), isLongPast)),
          and(inArray(boxes.id, [...quiet]), eq(boxes.onIdle, 'delete'), isIdle(lagMs)),
        ),
      );
      const ended = await db.transaction(async (tx) => {
        const due = await tx
          .select({ id: boxes.id, isExpired: isPast })
          .from(boxes)
          .where(overdue)
          .orderBy(asc(boxes.expiresAt))
          .limit(limit)
          .for('update', { skipLocked: true });
        const ended: BoxRow[] = [];
        for (const { id, isExpired } of due) {
          const cause: BoxCause = isExpired
            ? expired
            : { code: 'idle', detail: 'The box was not used for its idle time.' };
          // The condition is checked again now that the row is locked: only a new statement sees executions that started meanwhile.
          const [row] = await tx
            .update(boxes)
            .set({ state: 'deleting', cause, version: sql`${boxes.version} + 1`, endedAt: sql`now()`, ...clearedAtEnd })
            .where(and(eq(boxes.id, id), overdue))
            .returning();
          if (row) ended.push(await releaseInstances(tx, row));
        }
        return ended;
      });
      // In statements of their own, which cannot deadlock with the admission of several waiting boxes.
      for (const { id } of ended) await db.delete(waiting).where(eq(waiting.boxId, id));
      return ended;
    },

    /** Returns boxes whose creation was abandoned: their gateway died, or they are `creating` for too long. */
    async stuckCreating(site: string, olderThanMs: number, limit: number): Promise<BoxRow[]> {
      const isOld = sql`${boxes.lastActiveAt} < ${inSeconds(-olderThanMs / 1000)}`;
      const isAbandoned = and(isNotNull(boxes.gatewayId), not(isServing(boxes.gatewayId)));
      return await db
        .select()
        .from(boxes)
        .where(and(eq(boxes.state, 'creating'), or(and(isOld, isInReach(site)), isAbandoned)))
        .limit(limit);
    },

    /** Returns a page of ready boxes with their instances, by instance id; with `budgeted`, only boxes with a CPU budget. */
    async listWithInstances(
      site: string,
      { after, limit, budgeted, share }: { after: string; limit: number; budgeted: boolean; share?: Share },
    ): Promise<BoxWithInstance[]> {
      const isBudgeted = budgeted ? sql`${boxes.limits} ->> 'cpuSeconds' is not null` : undefined;
      const isShared = share && sql`abs(hashtext(${instances.id})::bigint) % ${share.parts} = ${share.part}`;
      return await db
        .select({ box: boxes, instance: instances.id, address: instances.address })
        .from(instances)
        .innerJoin(boxes, eq(instances.boxId, boxes.id))
        .where(and(runsReadyBox(site, after), isBudgeted, isShared))
        .orderBy(asc(instances.id))
        .limit(limit);
    },

    /** Counts the boxes that have not ended, by state, for the metrics. */
    async countByState(): Promise<Record<string, number>> {
      const rows = await db
        .select({ state: boxes.state, n: count() })
        .from(boxes)
        .where(isNull(boxes.endedAt))
        .groupBy(boxes.state);
      return Object.fromEntries(rows.map((row) => [row.state, row.n]));
    },

    /** Deletes up to `limit` boxes that ended long ago and have no executions left; returns their number. */
    purgeEnded: (afterSeconds: number, limit: number): Promise<number> =>
      deleteSome(
        db,
        boxes,
        sql`${boxes.endedAt} < ${inSeconds(-afterSeconds)}
          and not exists (select 1 from ${executions} where ${executions.boxId} = ${boxes.id})`,
        limit,
      ),
  };
};

export type BoxStore = ReturnType<typeof createBoxStore>;
