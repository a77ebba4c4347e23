import { and, eq, getTableColumns, sql } from 'drizzle-orm';
import type { Quotas } from '#contract';
import type { Database } from './database.ts';
import { quotas, requestWindows, usage } from './schema.ts';

/** Requests of the running minute that one gateway may let in by itself. */
export interface RequestLease {
  granted: number;
  /** Of the tenant, set aside by all gateways. */
  taken: number;
  /** Until the next minute begins, by the database's clock. */
  endsInMs: number;
}

const minute = sql`date_trunc('minute', now())`;

/** What tenants may use, and what of it they have used. */
export const createQuotaStore = (db: Database) => {
  const { tenantId: _, ...limits } = getTableColumns(quotas);
  const selectOne = db
    .select(limits)
    .from(quotas)
    .where(eq(quotas.tenantId, sql.placeholder('tenant')))
    .prepare('quotas');

  return {
    /** Null for a tenant without any. */
    async find(tenantId: string): Promise<Quotas | null> {
      const [row] = await selectOne.execute({ tenant: tenantId });
      return row ?? null;
    },

    /** CPU time of a tenant's boxes today, in ms, and how long the day still is. */
    async cpuToday(tenantId: string): Promise<{ usedMs: number; dayEndsInSeconds: number }> {
      const today = sql`(now() at time zone 'utc')::date`;
      const [row] = await db
        .select({
          usedMs: sql<number>`coalesce(sum(${usage.cpuMs}), 0)::float8`,
          dayEndsInSeconds: sql<number>`ceil(extract(epoch from (${today} + 1) - (now() at time zone 'utc')))::int`,
        })
        .from(usage)
        .where(and(eq(usage.tenantId, tenantId), eq(usage.day, today)));
      return row ?? { usedMs: 0, dayEndsInSeconds: 1 };
    },

    /** Sets up to `count` requests of this minute aside, never more than `limit` for all gateways together. */
    async leaseRequests(tenantId: string, count: number, limit: number): Promise<RequestLease> {
      const first = Math.min(count, limit);
      const free = sql`greatest(0, least(${count}, ${limit} - ${requestWindows.taken}))`;
      const isSame = sql`${requestWindows.startedAt} = excluded.started_at`;
      const [row] = await db
        .insert(requestWindows)
        .values({ tenantId, startedAt: minute, taken: first, granted: first })
        .onConflictDoUpdate({
          target: requestWindows.tenantId,
          set: {
            startedAt: minute,
            taken: sql`case when ${isSame} then ${requestWindows.taken} + ${free} else ${first} end`,
            granted: sql`case when ${isSame} then ${free} else ${first} end`,
          },
        })
        .returning({
          granted: requestWindows.granted,
          taken: requestWindows.taken,
          endsInMs: sql<number>`(extract(epoch from ${minute} + interval '1 minute' - now()) * 1000)::float8`,
        });
      if (!row) throw new Error('an insert returned no row');
      return row;
    },
  };
};

export type QuotaStore = ReturnType<typeof createQuotaStore>;
