import { and, asc, eq, getTableColumns, isNotNull, notExists, sql } from 'drizzle-orm';
import type { QuotaMet, Quotas } from '#contract';
import { runsReadyBox } from '../box/boxes.ts';
import type { Database } from '../database.ts';
import { boxes, executions, instances, quotas, requestWindows, usage } from '../schema.ts';

/** Requests of the current minute that one gateway may admit by itself. */
export interface RequestLease {
  granted: number;
  /** The requests of the tenant that all gateways have leased. */
  taken: number;
  /** The time until the next minute, by the database's clock. */
  endsInMs: number;
}

/** A running box whose tenant has used all its CPU time of the day. */
export interface BoxOverCpu {
  box: { id: string; tenantId: string };
  instance: string;
  address: string;
  /** The CPU limit of the box. */
  cpus: number;
  /** True while no execution runs but a task or a caller (for example a file transfer) accounts for the CPU use. */
  isUsed: boolean;
  quota: QuotaMet;
}

const today = sql`(now() at time zone 'utc')::date`;
const minute = sql`date_trunc('minute', now())`;

/** The quotas of tenants, and how much of them is used. */
export const createQuotaStore = (db: Database) => {
  const { tenantId: _, ...limits } = getTableColumns(quotas);
  const selectOne = db
    .select(limits)
    .from(quotas)
    .where(eq(quotas.tenantId, sql.placeholder('tenant')))
    .prepare('quotas');

  return {
    /** Resolves with null for a tenant without quotas. */
    async find(tenantId: string): Promise<Quotas | null> {
      const [row] = await selectOne.execute({ tenant: tenantId });
      return row ?? null;
    },

    /** Returns the CPU time of a tenant's boxes today, in ms, and the rest of the day in seconds. */
    async cpuToday(tenantId: string): Promise<{ usedMs: number; dayEndsInSeconds: number }> {
      const [row] = await db
        .select({
          usedMs: sql<number>`coalesce(sum(${usage.cpuMs}), 0)::float8`,
          dayEndsInSeconds: sql<number>`ceil(extract(epoch from (${today} + 1) - (now() at time zone 'utc')))::int`,
        })
        .from(usage)
        .where(and(eq(usage.tenantId, tenantId), eq(usage.day, today)));
      return row ?? { usedMs: 0, dayEndsInSeconds: 1 };
    },

    /**
     * Returns a page, by instance id, of ready boxes whose tenants have no CPU time left today. Use of a box may be recorded up to `lagMs`
     * late.
     */
    async overCpuToday(site: string, after: string, lagMs: number, limit: number): Promise<BoxOverCpu[]> {
      const anyRunning = db
        .select({ one: sql`1` })
        .from(executions)
        .where(and(eq(executions.boxId, boxes.id), eq(executions.status, 'running')));
      const over = db
        .select({
          tenantId: quotas.tenantId,
          limit: sql<number>`${quotas.cpuSecondsPerDay}`.as('cpu_limit'),
          used: sql<number>`floor(coalesce(sum(${usage.cpuMs}), 0) / 1000)::float8`.as('cpu_used'),
        })
        .from(quotas)
        .leftJoin(usage, and(eq(usage.tenantId, quotas.tenantId), eq(usage.day, today)))
        .where(isNotNull(quotas.cpuSecondsPerDay))
        .groupBy(quotas.tenantId)
        .having(sql`coalesce(sum(${usage.cpuMs}), 0) > ${quotas.cpuSecondsPerDay}::bigint * 1000 - 1`)
        .as('over');
      const rows = await db
        .select({
          id: boxes.id,
          tenantId: boxes.tenantId,
          instance: instances.id,
          address: instances.address,
          limits: boxes.limits,
          isUsed: sql<boolean>`${notExists(anyRunning)} and (${boxes.task} is not null or
            ${boxes.lastActiveAt} + make_interval(secs => ${lagMs / 1000}::float8) > now())`,
          limit: over.limit,
          used: over.used,
        })
        .from(instances)
        .innerJoin(boxes, eq(instances.boxId, boxes.id))
        .innerJoin(over, eq(over.tenantId, boxes.tenantId))
        .where(runsReadyBox(site, after))
        .orderBy(asc(instances.id))
        .limit(limit);
      return rows.map(({ id, tenantId, instance, address, limits: { cpus }, isUsed, ...quota }) => ({
        box: { id, tenantId },
        instance,
        address: address ?? '',
        cpus,
        isUsed,
        quota: { name: 'cpuSecondsPerDay', ...quota },
      }));
    },

    /** Leases up to `count` requests of this minute, never more than `limit` for all gateways together. */
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
