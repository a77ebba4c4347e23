import { and, asc, desc, eq, lt, ne, or, sql } from 'drizzle-orm';
import type { Cause, ExecutionDone, PageQuery } from '#contract';
import type { Database } from './database.ts';
import { readCursor, toPage } from './page.ts';
import { executions } from './schema.ts';

export type ExecutionRow = typeof executions.$inferSelect;

/** How an execution ended, and where it ran. */
export interface ExecutionEnd {
  id: string;
  boxId: string;
  done: ExecutionDone;
  context: string | null;
  language: string | null;
}

/** Executions: written when code is sent to a box, ended once by whoever first learns how they ended. */
export const createExecutionStore = (db: Database) => {
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
  const insertOne = db
    .insert(executions)
    .values({
      id: sql.placeholder('id'),
      boxId: sql.placeholder('box'),
      tenantId: sql.placeholder('tenant'),
      context: sql.placeholder('context'),
      language: sql.placeholder('language'),
      timeoutMs: sql.placeholder('timeoutMs'),
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
    async insert(execution: {
      id: string;
      box: string;
      tenant: string;
      context: string | null;
      language: string | null;
      timeoutMs: number;
    }): Promise<ExecutionRow> {
      const [row] = await insertOne.execute(execution);
      if (!row) throw new Error('an insert returned no row');
      return row;
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

    /** Ends all that still count as running in a box that is gone. */
    async loseAll(boxId: string, cause: Cause): Promise<void> {
      await db
        .update(executions)
        .set({ status: 'lost', cause, finishedAt: sql`now()` })
        .where(and(eq(executions.boxId, boxId), eq(executions.status, 'running')));
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

    /** Forgets one that the box refused before it ran. */
    async remove(id: string): Promise<void> {
      await db.delete(executions).where(eq(executions.id, id));
    },

    /** A page, in the order of their ids, of executions that have counted as running for longer than `olderThanMs`. */
    async running(after: string, olderThanMs: number, limit: number): Promise<ExecutionRow[]> {
      return await db
        .select()
        .from(executions)
        .where(
          and(
            eq(executions.status, 'running'),
            sql`${executions.id} > ${after}`,
            sql`${executions.createdAt} < now() - make_interval(secs => ${olderThanMs / 1000})`,
          ),
        )
        .orderBy(asc(executions.id))
        .limit(limit);
    },
  };
};

export type ExecutionStore = ReturnType<typeof createExecutionStore>;
