import { and, asc, desc, eq, gt, inArray, lt, lte, ne, notExists, or, sql } from 'drizzle-orm';
import type { Cause, ExecutionDone, PageQuery } from '#contract';
import { readCursor, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { isServing } from '../gateways.ts';
import { isWithout } from '../not-null.ts';
import { boxes, executions } from '../schema.ts';
import { isInReach } from './boxes.ts';

export type ExecutionRow = typeof executions.$inferSelect;

/** An execution that is recorded as running; `isAbandoned` when no living gateway follows it. */
export interface UnsettledExecution {
  row: ExecutionRow;
  isAbandoned: boolean;
}

/** How an execution ended, and where it ran. */
export interface ExecutionEnd {
  id: string;
  boxId: string;
  done: ExecutionDone;
  context: string | null;
  language: string | null;
}

/** A run is recorded while its code is on its way to the box. Of two runs, the one recorded up to this much later may have arrived first. */
const besideSeconds = 10;

/** Executions: inserted when code is sent to a box, and ended once, by the first gateway that learns how they ended. */
export const createExecutionStore = (db: Database, gateway: string | null) => {
  const selectOne = db
    .select()
    .from(executions)
    .where(
      and(
        eq(executions.id, sql.placeholder('id')),
        eq(executions.boxId, sql.placeholder('box')),
        eq(executions.tenantId, sql.placeholder('tenant')),
      ),
    )
    .prepare('execution');
  // The lock keeps the box from being ended or frozen meanwhile. If that has happened already, the box id is null and the insert fails.
  const readyBox = sql`(
    select ${boxes.id} from ${boxes}
    where ${boxes.id} = ${sql.placeholder('box')} and ${boxes.tenantId} = ${sql.placeholder('tenant')}
      and ${boxes.state} = 'ready' and ${boxes.task} is distinct from 'freeze'
    for share
  )`;
  const insertOne = db
    .insert(executions)
    .values({
      id: sql.placeholder('id'),
      boxId: readyBox,
      tenantId: sql.placeholder('tenant'),
      context: sql.placeholder('context'),
      language: sql.placeholder('language'),
      timeoutMs: sql.placeholder('timeoutMs'),
      gatewayId: gateway,
      status: 'running',
    })
    .returning()
    .prepare('execution_insert');

  const end = sql.raw('ended');
  const finishAll = db
    .update(executions)
    .set({
      status: sql`${end}.done ->> 'status'`,
      cause: sql`${end}.done -> 'cause'`,
      done: sql`${end}.done`,
      context: sql`${end}.context`,
      language: sql`${end}.language`,
      finishedAt: sql`now()`,
    })
    .from(sql`json_to_recordset(${sql.placeholder('ends')}) as ended(id text, done jsonb, context text, language text)`)
    .where(and(sql`${executions.id} = ${end}.id`, eq(executions.status, 'running')))
    .returning({ id: executions.id })
    .prepare('executions_finish');

  return {
    /** Inserts an execution that is about to start; returns undefined when its box is no longer ready. */
    async insert(execution: {
      id: string;
      box: string;
      tenant: string;
      context: string | null;
      language: string | null;
      timeoutMs: number;
    }): Promise<ExecutionRow | undefined> {
      try {
        const [row] = await insertOne.execute(execution);
        return row;
      } catch (error) {
        if (isWithout('box_id', error)) return undefined;
        throw error;
      }
    },

    async find(tenant: string, box: string, id: string): Promise<ExecutionRow | undefined> {
      const [row] = await selectOne.execute({ tenant, box, id });
      return row;
    },

    async list(tenant: string, box: string, query: PageQuery) {
      const cursor = readCursor(query.cursor);
      const rows = await db
        .select()
        .from(executions)
        .where(
          and(
            eq(executions.tenantId, tenant),
            eq(executions.boxId, box),
            cursor &&
              or(
                lt(executions.createdAt, cursor.at),
                and(eq(executions.createdAt, cursor.at), lt(executions.id, cursor.id)),
              ),
          ),
        )
        .orderBy(desc(executions.createdAt), desc(executions.id))
        .limit(query.limit + 1);
      return toPage(rows, query.limit);
    },

    /** Records ends; the first record of an execution wins. Returns the ids of those that this call has ended. */
    async finish(ends: readonly ExecutionEnd[]): Promise<string[]> {
      const rows = await finishAll.execute({ ends: JSON.stringify(ends) });
      return rows.map((row) => row.id);
    },

    /** Ends the running executions of a lost instance of the box, but not those that started after the box was restored. */
    async loseAll(boxId: string, cause: Cause): Promise<void> {
      const restored = db
        .select({ one: sql`1` })
        .from(boxes)
        .where(
          and(
            eq(boxes.id, executions.boxId),
            inArray(boxes.state, ['ready', 'paused']),
            lte(boxes.restoredAt, executions.createdAt),
          ),
        );
      await db
        .update(executions)
        .set({ status: 'lost', cause, finishedAt: sql`now()` })
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running'), notExists(restored)));
    },

    /**
     * Returns for how long, in ms, a running execution has been the oldest one of its box; undefined while an older one runs, behind
     * which it may be queued. Runs that were recorded at about the same time may have reached the box first: while one of them runs, the
     * longest that it may take (its timeout, or `longestMs` without one, and `slackMs`) is subtracted, so the result may be negative.
     */
    async freeForMs(
      { id, boxId, createdAt }: ExecutionRow,
      { longestMs, slackMs }: { longestMs: number; slackMs: number },
    ): Promise<number | undefined> {
      const at = sql`${createdAt.toISOString()}::timestamptz`;
      const before = sql`${executions.createdAt} < ${at} + make_interval(secs => ${besideSeconds})`;
      const isRunning = eq(executions.status, 'running');
      const since = sql`greatest(${at}, max(${executions.finishedAt}))`;
      const timeoutMs = sql`max(coalesce(${executions.timeoutMs}, ${longestMs}::int)) filter (where ${isRunning})`;
      const besideMs = sql`coalesce(${timeoutMs} + ${slackMs}::float8, 0)`;
      const [row] = await db
        .select({
          running: sql<number>`count(*) filter (where ${isRunning} and ${executions.createdAt} < ${at})::int`,
          freeMs: sql<number>`(extract(epoch from now() - ${since}) * 1000 - ${besideMs})::float8`,
        })
        .from(executions)
        .where(and(eq(executions.boxId, boxId), before, ne(executions.id, id)));
      return row === undefined || row.running > 0 ? undefined : row.freeMs;
    },

    /** Returns the id of one execution that is recorded as running in a box, if there is any. */
    async anyRunning(boxId: string): Promise<string | undefined> {
      const [row] = await db
        .select({ id: executions.id })
        .from(executions)
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running')))
        .limit(1);
      return row?.id;
    },

    /** Deletes an execution that the box refused before it ran, unless another gateway has ended it. */
    async remove(id: string): Promise<void> {
      await db.delete(executions).where(and(eq(executions.id, id), eq(executions.status, 'running')));
    },

    /**
     * Returns a page, by id, of executions that are recorded as running, in boxes in reach of the site, and that no living gateway follows
     * or that are older than `olderThanMs`.
     */
    async unsettled(site: string, after: string, olderThanMs: number, limit: number): Promise<UnsettledExecution[]> {
      const isAbandoned = sql<boolean>`not ${isServing(executions.gatewayId)}`;
      const isOld = sql`${executions.createdAt} < now() - make_interval(secs => ${olderThanMs / 1000})`;
      return await db
        .select({ row: executions, isAbandoned })
        .from(executions)
        .where(
          and(
            eq(executions.status, 'running'),
            gt(executions.id, after),
            or(isOld, isAbandoned),
            isInReach(site, executions.boxId),
          ),
        )
        .orderBy(asc(executions.id))
        .limit(limit);
    },

    /** Returns the executions of a box that are recorded as running. */
    async runningIn(boxId: string, limit: number): Promise<ExecutionRow[]> {
      return await db
        .select()
        .from(executions)
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running')))
        .limit(limit);
    },

    /** Whether a living gateway follows a running execution of a box. */
    async isFollowedIn(boxId: string): Promise<boolean> {
      const found = await db
        .select({ id: executions.id })
        .from(executions)
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running'), isServing(executions.gatewayId)))
        .limit(1);
      return found.length > 0;
    },

    /** Whether another living gateway follows this execution. */
    async isFollowedElsewhere(id: string): Promise<boolean> {
      const another = sql`${executions.gatewayId} is distinct from ${gateway}`;
      const found = await db
        .select({ id: executions.id })
        .from(executions)
        .where(and(eq(executions.id, id), eq(executions.status, 'running'), another, isServing(executions.gatewayId)));
      return found.length > 0;
    },

    /** Makes this gateway the one that follows an execution; returns false when another one was faster. */
    async adopt({ id, gatewayId }: ExecutionRow): Promise<boolean> {
      const isAsBefore = sql`${executions.gatewayId} is not distinct from ${gatewayId}`;
      const adopted = await db
        .update(executions)
        .set({ gatewayId: gateway })
        .where(and(eq(executions.id, id), eq(executions.status, 'running'), isAsBefore))
        .returning({ id: executions.id });
      return adopted.length > 0;
    },

    /** Deletes up to `limit` executions of boxes that ended long ago; returns their number. */
    purgeEnded: (afterSeconds: number, limit: number): Promise<number> => {
      // Each of these boxes has at least one execution, so `limit` boxes are enough.
      const oldest = sql`
        select ${boxes.id} from ${boxes}
        where ${boxes.endedAt} < now() - make_interval(secs => ${afterSeconds})
          and exists (select 1 from ${executions} where ${executions.boxId} = ${boxes.id})
        order by ${boxes.endedAt} limit ${limit}`;
      return deleteSome(db, executions, sql`${executions.boxId} = any(array(${oldest}))`, limit);
    },
  };
};

export type ExecutionStore = ReturnType<typeof createExecutionStore>;
