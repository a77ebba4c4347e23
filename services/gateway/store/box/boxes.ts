import {
  and,
  asc,
  count,
  desc,
  eq,
  gt,
  inArray,
  isNotNull,
  isNull,
  lt,
  ne,
  not,
  notExists,
  or,
  type SQL,
  sql,
} from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { BoxCause, BoxQuery, OnIdle, UpdateBox } from '#contract';
import { readCursor, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { isServing } from '../gateways.ts';
import { boxes, executions, instances, waiting } from '../schema.ts';
import { activeTenant } from '../tenants/active-tenant.ts';
import type { InstanceRow } from './instances.ts';

export type BoxRow = typeof boxes.$inferSelect;

/** How a box got its instance, how long that took, and the CPU time used until then, which is not its user's; null when not known. */
export interface Startup {
  kind: 'warm' | 'cold';
  ms: number;
  cpuMs: number | null;
}

/** A box with what embodies it. */
export interface FoundBox {
  box: BoxRow;
  instance: InstanceRow | null;
  /** Whether it is past its idle time, so that it may be ended at any moment. */
  isDue: boolean;
}

/** For so much longer than its maximum life a box may be left to the site where it lives. */
const otherSiteSeconds = 60;
/** After its idle time a box that does not say whether it is used is left alone for this much longer. */
const silentSeconds = 60;
const living = ['creating', 'ready', 'paused', 'hibernated'] as const;
/** Why a box ends that is past its maximum life. */
export const expired = { code: 'expired', detail: 'The box reached its maximum lifetime.' } as const satisfies BoxCause;
/** In words that the indexes of living boxes know. */
const isLiving = and(isNull(boxes.endedAt), inArray(boxes.state, living));
const isDue = sql<boolean>`${boxes.lastActiveAt} + make_interval(secs => ${boxes.idleSeconds}) <= now()`;
/** Of a box: this instance is the one that embodies it, and not about to go. */
export const isEmbodiedBy = (instance: string) =>
  sql`exists (select from ${instances} where ${instances.id} = ${instance} and ${instances.boxId} = ${boxes.id} and ${instances.state} <> 'destroying')`;
/** Of a box: nothing that embodies it, or is to, lives at another site. */
export const isInReach = (site: string, boxId: PgColumn = boxes.id) =>
  sql<boolean>`not exists (select from ${instances} where ${instances.boxId} = ${boxId} and ${instances.site} <> ${site} and ${instances.state} <> 'destroying')`;
/** Of instances with their boxes: those of ready ones that run, behind `after`. */
export const embodies = (site: string, after: string) =>
  and(eq(instances.site, site), eq(instances.state, 'running'), eq(boxes.state, 'ready'), gt(instances.id, after));
/** A box that is ready, the id of its instance, and where that listens. */
export interface EmbodiedBox {
  box: BoxRow;
  instance: string;
  address: string | null;
}

/** Of a box that has ended: no task goes on, and its blob is nobody's. */
const nothingKept = {
  task: null,
  taskId: null,
  taskSince: null,
  taskUntil: null,
  checkpointId: null,
  checkpointAt: null,
  storageBytes: 0,
} as const;
/**
 * What embodies a box that ends has to go first; one that hibernates or waits for room has nothing, and is `deleted` at once. Asked by
 * the write itself: a look before it could still see an instance that is just being forgotten, which would be waited for for ever.
 */
const dismiss = async (tx: Pick<Database, 'update'>, box: BoxRow): Promise<BoxRow> => {
  const going = await tx
    .update(instances)
    .set({ state: 'destroying' })
    .where(eq(instances.boxId, box.id))
    .returning({ id: instances.id });
  if (going.length > 0 || box.state !== 'deleting') return box;
  const [deleted] = await tx.update(boxes).set({ state: 'deleted' }).where(eq(boxes.id, box.id)).returning();
  return deleted ?? box;
};
const inSeconds = (seconds: SQL | number) => sql`now() + make_interval(secs => ${seconds})`;

/** Boxes and the instances that embody them. Every change of a box's state is a compare-and-set on `version`. */
export const createBoxStore = (db: Database) => {
  const selectWithInstance = db
    .select({ box: boxes, instance: instances, isDue })
    .from(boxes)
    .leftJoin(instances, and(eq(instances.boxId, boxes.id), ne(instances.state, 'destroying')))
    .where(and(eq(boxes.id, sql.placeholder('box')), eq(boxes.tenantId, sql.placeholder('tenant'))))
    // One that is still being made for it may never be: of two, the one that runs embodies it.
    .orderBy(sql`${instances.state} = 'running' desc`)
    .limit(1)
    .prepare('box_with_instance');

  const running = db
    .select({ one: sql`1` })
    .from(executions)
    .where(and(eq(executions.boxId, boxes.id), eq(executions.status, 'running')));
  /** Ready, without a running execution, and past its idle time by what its use may be written late. */
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
          // Nobody has given it up meanwhile.
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

  return {
    /** What embodies a box had used so much CPU time when it was handed out: that is not its user's, what it had used before it rested is. */
    async noteStartup(id: string, instance: string, cpuMs: number): Promise<void> {
      await db
        .update(boxes)
        .set({ startupCpuMs: sql`${cpuMs}::integer - ${boxes.spentCpuMs}` })
        .where(and(eq(boxes.id, id), isEmbodiedBy(instance)));
    },

    /** Forgets a box that never got an instance. */
    async withdraw(id: string): Promise<void> {
      await db.delete(boxes).where(and(eq(boxes.id, id), eq(boxes.state, 'creating')));
    },

    /** A box of this tenant with the instance that embodies it, if one does. */
    async find(tenantId: string, id: string): Promise<FoundBox | undefined> {
      const [row] = await selectWithInstance.execute({ box: id, tenant: tenantId });
      return row;
    },

    /** The user's living box, the newest one; `isExpired` when it is past its maximum life and about to be ended. */
    async findReusable(tenantId: string, userId: string): Promise<{ box: BoxRow; isExpired: boolean } | undefined> {
      const [row] = await db
        .select({ box: boxes, isExpired: sql<boolean>`${boxes.expiresAt} <= now() and ${boxes.state} <> 'creating'` })
        .from(boxes)
        .where(and(eq(boxes.tenantId, tenantId), eq(boxes.userId, userId), isLiving))
        .orderBy(desc(boxes.createdAt))
        .limit(1);
      return row;
    },

    async list(tenantId: string, query: BoxQuery) {
      const cursor = readCursor(query.cursor);
      const [key, ...rest] = query.metadata?.split('=') ?? [];
      const rows = await db
        .select()
        .from(boxes)
        .where(
          and(
            eq(boxes.tenantId, tenantId),
            query.state ? eq(boxes.state, query.state) : undefined,
            query.state === undefined || living.some((state) => state === query.state) ? isLiving : undefined,
            query.user === undefined ? undefined : eq(boxes.userId, query.user),
            key === undefined ? undefined : sql`${boxes.metadata} ->> ${key} = ${rest.join('=')}`,
            cursor && or(lt(boxes.createdAt, cursor.at), and(eq(boxes.createdAt, cursor.at), lt(boxes.id, cursor.id))),
          ),
        )
        .orderBy(desc(boxes.createdAt), desc(boxes.id))
        .limit(query.limit + 1);
      return toPage(rows, query.limit);
    },

    /** `creating` → `ready`, with what its start took; undefined when it was deleted meanwhile. One statement. */
    async markReady(id: string, instance: { id: string; address: string }, took: Startup): Promise<BoxRow | undefined> {
      const [row] = await markReady.execute({ id, instance: instance.id, address: instance.address, ...took });
      return row;
    },

    /**
     * Moves a living box towards its end; with `instance` only while that one embodies it. Answers undefined when somebody else
     * already did.
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
            ...nothingKept,
          })
          .where(
            and(
              eq(boxes.id, id),
              inArray(boxes.state, living),
              instance === undefined ? undefined : isEmbodiedBy(instance),
            ),
          )
          .returning();
        if (!row) return undefined;
        await tx.delete(waiting).where(eq(waiting.boxId, id));
        return await dismiss(tx, row);
      });
    },

    /** Undefined when there is no such box, it has ended, or its tenant is not active any more. */
    async update(tenantId: string, id: string, change: UpdateBox): Promise<BoxRow | undefined> {
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

    /** Records use of boxes, and answers those that are not on their way to their end; the clock is the database's. */
    async touch(ids: string[]): Promise<string[]> {
      if (ids.length === 0) return [];
      // In one order for all gateways, or two of them could wait for each other.
      const used = db
        .select({ id: boxes.id })
        .from(boxes)
        .where(and(inArray(boxes.id, ids), inArray(boxes.state, ['ready', 'creating'])))
        .orderBy(asc(boxes.id))
        .for('no key update');
      const touched = await db
        .update(boxes)
        .set({ lastActiveAt: sql`now()` })
        .where(inArray(boxes.id, used))
        .returning({ id: boxes.id });
      return touched.map(({ id }) => id);
    },

    /**
     * Some of the boxes in reach that are past their idle time as far as is on record, and are then to do one of `onIdle`; chosen by chance,
     * so that one that does not answer keeps nobody waiting. What runs there may be known only to themselves; one that has not been
     * heard of for long `isSilent`.
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
     * Moves up to `limit` boxes that are past their maximum life, and those of `quiet` that are past their idle time, to `deleting`.
     * Rows that another gateway is working on are skipped. A box with a running execution is not idle, and one whose use by another
     * gateway may be written up to `lagMs` late is so only after that. A box that lives at another site, which can ask it for its last
     * results, is left to that for a minute.
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
      return await db.transaction(async (tx) => {
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
          // Asked again now that the row is locked: what has begun to run since the first look shows only to a new statement.
          const [row] = await tx
            .update(boxes)
            .set({ state: 'deleting', cause, version: sql`${boxes.version} + 1`, endedAt: sql`now()`, ...nothingKept })
            .where(and(eq(boxes.id, id), overdue))
            .returning();
          if (!row) continue;
          ended.push(await dismiss(tx, row));
        }
        return ended;
      });
    },

    /** Boxes that nobody makes any more: their gateway died, or they are `creating` long after they should have been ready. */
    async stuckCreating(site: string, olderThanMs: number, limit: number): Promise<BoxRow[]> {
      const isOld = sql`${boxes.lastActiveAt} < ${inSeconds(-olderThanMs / 1000)}`;
      const isAbandoned = and(isNotNull(boxes.gatewayId), not(isServing(boxes.gatewayId)));
      return await db
        .select()
        .from(boxes)
        .where(and(eq(boxes.state, 'creating'), or(and(isOld, isInReach(site)), isAbandoned)))
        .limit(limit);
    },

    /** A page, by the ids of their instances, of ready boxes and what embodies them; only `budgeted` ones on request. */
    async embodied(
      site: string,
      { after, limit, budgeted }: { after: string; limit: number; budgeted: boolean },
    ): Promise<EmbodiedBox[]> {
      return await db
        .select({ box: boxes, instance: instances.id, address: instances.address })
        .from(instances)
        .innerJoin(boxes, eq(instances.boxId, boxes.id))
        .where(and(embodies(site, after), budgeted ? sql`${boxes.limits} ->> 'cpuSeconds' is not null` : undefined))
        .orderBy(asc(instances.id))
        .limit(limit);
    },

    /** Number of boxes by state, for the metrics; ended ones are not counted. */
    async countByState(): Promise<Record<string, number>> {
      const rows = await db
        .select({ state: boxes.state, n: count() })
        .from(boxes)
        .where(isNull(boxes.endedAt))
        .groupBy(boxes.state);
      return Object.fromEntries(rows.map((row) => [row.state, row.n]));
    },

    /** Forgets up to `limit` boxes that ended long ago and have no executions any more; how many those were. */
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
