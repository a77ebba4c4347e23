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

/** One that counts as running; `isAbandoned` when no living gateway follows it. */
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

/** Executions: written when code is sent to a box, ended once by whoever first learns how they ended. */
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
  // The lock keeps the box from being ended or frozen meanwhile; where it comes too late there is no box to insert for.
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
    /** Writes one that begins; undefined when its box is not ready any more. */
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

    /** Records ends; for each execution the first one to do so wins. Answers the ids for which this was it. */
    async finish(ends: readonly ExecutionEnd[]): Promise<string[]> {
      const rows = await finishAll.execute({ ends: JSON.stringify(ends) });
      return rows.map((row) => row.id);
    },

    /** Ends all that still count as running in what embodied a box and is gone; not those that run in what was restored since. */
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
     * For how long, in ms, a running execution has been the oldest one of its box; undefined while an older one runs. Until
     * then it may wait in a queue.
     */
    async freeForMs({ id, boxId, createdAt }: ExecutionRow): Promise<number | undefined> {
      const older = and(eq(executions.boxId, boxId), lt(executions.createdAt, createdAt), ne(executions.id, id));
      const since = sql`greatest(${createdAt.toISOString()}::timestamptz, max(${executions.finishedAt}))`;
      const [row] = await db
        .select({
          running: sql<number>`count(*) filter (where ${executions.status} = 'running')::int`,
          freeMs: sql<number>`(extract(epoch from now() - ${since}) * 1000)::float8`,
        })
        .from(executions)
        .where(older);
      return row === undefined || row.running > 0 ? undefined : row.freeMs;
    },

    /** One that counts as running in a box, if any does. */
    async anyRunning(boxId: string): Promise<string | undefined> {
      const [row] = await db
        .select({ id: executions.id })
        .from(executions)
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running')))
        .limit(1);
      return row?.id;
    },

    /** Forgets one that the box refused before it ran, unless another gateway has ended it. */
    async remove(id: string): Promise<void> {
      await db.delete(executions).where(and(eq(executions.id, id), eq(executions.status, 'running')));
    },

    /**
     * A page, in the order of their ids, of executions that count as running and that nobody follows any more, and of those that
     * have counted as running for longer than `olderThanMs`; of boxes in reach of the site.
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

    /** Those of one box that count as running. */
    async runningIn(boxId: string, limit: number): Promise<ExecutionRow[]> {
      return await db
        .select()
        .from(executions)
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running')))
        .limit(limit);
    },

    /** Whether a gateway that lives follows something that counts as running in a box. */
    async isFollowedIn(boxId: string): Promise<boolean> {
      const found = await db
        .select({ id: executions.id })
        .from(executions)
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running'), isServing(executions.gatewayId)))
        .limit(1);
      return found.length > 0;
    },

    /** Whether another gateway, which lives, follows this one. */
    async isFollowedElsewhere(id: string): Promise<boolean> {
      const another = sql`${executions.gatewayId} is distinct from ${gateway}`;
      const found = await db
        .select({ id: executions.id })
        .from(executions)
        .where(and(eq(executions.id, id), eq(executions.status, 'running'), another, isServing(executions.gatewayId)));
      return found.length > 0;
    },

    /** From now on this gateway follows it; false when somebody else was faster. */
    async adopt({ id, gatewayId }: ExecutionRow): Promise<boolean> {
      const isAsBefore = sql`${executions.gatewayId} is not distinct from ${gatewayId}`;
      const adopted = await db
        .update(executions)
        .set({ gatewayId: gateway })
        .where(and(eq(executions.id, id), eq(executions.status, 'running'), isAsBefore))
        .returning({ id: executions.id });
      return adopted.length > 0;
    },

    /** Forgets up to `limit` executions of boxes that ended long ago; how many those were. */
    purgeEnded: (afterSeconds: number, limit: number): Promise<number> => {
      // Each of these boxes has one at least, so they are enough.
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
