import { and, asc, desc, eq, gt, gte, isNotNull, lt, lte, or, sql } from 'drizzle-orm';
import { dayQuerySchema, type Page, type UsageQuery } from '#contract';
import { foreignCursor } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { instances, usage } from '../schema.ts';

export type UsageRow = Omit<typeof usage.$inferSelect, 'tenantId'>;

/** What the host says of an instance, since its start. */
export interface Metered {
  cpuMs: number;
  peakMemoryBytes: number;
}

const today = sql`(now() at time zone 'utc')::date`;
const cursorPattern = /^(\d{4}-\d{2}-\d{2}) (.*)$/s;

/** The place where a page begins: behind this user of this day. */
const readCursor = (cursor: string | undefined): { day: string; user: string } | undefined => {
  if (cursor === undefined) return undefined;
  const [, day = '', user = ''] = cursorPattern.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (!dayQuerySchema.safeParse(day).success || user.includes('\0')) throw foreignCursor();
  return { day, user };
};

/** What tenants have used, by day and user. */
export const createUsageStore = (db: Database) => ({
  /** A page, the newest day first. */
  async list(tenantId: string, query: UsageQuery): Promise<Page<UsageRow>> {
    const cursor = readCursor(query.cursor);
    const rows = await db
      .select()
      .from(usage)
      .where(
        and(
          eq(usage.tenantId, tenantId),
          query.from === undefined ? undefined : gte(usage.day, query.from),
          query.to === undefined ? undefined : lte(usage.day, query.to),
          query.user === undefined ? undefined : eq(usage.userId, query.user),
          cursor && or(lt(usage.day, cursor.day), and(eq(usage.day, cursor.day), gt(usage.userId, cursor.user))),
        ),
      )
      .orderBy(desc(usage.day), asc(usage.userId))
      .limit(query.limit + 1);
    const items = rows.slice(0, query.limit);
    const last = items.at(-1);
    const isMore = rows.length > query.limit && last !== undefined;
    return { items, nextCursor: isMore ? Buffer.from(`${last.day} ${last.userId}`).toString('base64url') : null };
  },

  /** A page of the ids of instances that are a box's own, paused ones included, in their order. */
  async inUse(site: string, after: string, limit: number): Promise<string[]> {
    const rows = await db
      .select({ id: instances.id })
      .from(instances)
      .where(
        and(
          eq(instances.site, site),
          eq(instances.state, 'running'),
          isNotNull(instances.boxId),
          gt(instances.id, after),
        ),
      )
      .orderBy(asc(instances.id))
      .limit(limit);
    return rows.map(({ id }) => id);
  },

  /** Where the count of an instance's CPU time begins, if it has not begun already. */
  async begin(instanceId: string, cpuMs: number): Promise<void> {
    await db
      .update(instances)
      .set({ meteredCpuMs: cpuMs })
      .where(and(eq(instances.id, instanceId), eq(instances.meteredCpuMs, 0)));
  },

  /** The CPU time of an instance as it was counted last. */
  async lastCpuMs(instanceId: string): Promise<number> {
    const [row] = await db
      .select({ cpuMs: instances.meteredCpuMs })
      .from(instances)
      .where(eq(instances.id, instanceId));
    return row?.cpuMs ?? 0;
  },

  /**
   * Counts what the box of an instance has used since it was counted last: the time until now, or until its end, and the CPU time
   * that its host has seen. Whoever comes second adds nothing. An instance without a box is nobody's use.
   */
  async meter(instanceId: string, { cpuMs, peakMemoryBytes }: Metered): Promise<void> {
    await db.execute(sql`
      with before as (
        select i.id, b.tenant_id, coalesce(b.user_id, '') as user_id,
          least(now(), coalesce(b.ended_at, now())) as until,
          greatest(0, extract(epoch from least(now(), coalesce(b.ended_at, now())) - i.metered_at) * 1000) as box_ms,
          greatest(0, ${cpuMs}::bigint - i.metered_cpu_ms) as cpu_ms
        from instances i join boxes b on b.id = i.box_id
        where i.id = ${instanceId}
        for update of i
      ), noted as (
        update instances i
        set metered_at = greatest(i.metered_at, before.until), metered_cpu_ms = i.metered_cpu_ms + before.cpu_ms
        from before where i.id = before.id
      )
      insert into usage (tenant_id, user_id, day, box_ms, cpu_ms, peak_memory_bytes)
        select tenant_id, user_id, ${today}, box_ms::bigint, cpu_ms, ${peakMemoryBytes}::bigint from before
        on conflict (tenant_id, day, user_id) do update set
          box_ms = usage.box_ms + excluded.box_ms,
          cpu_ms = usage.cpu_ms + excluded.cpu_ms,
          peak_memory_bytes = greatest(usage.peak_memory_bytes, excluded.peak_memory_bytes)`);
  },

  /** Forgets up to `limit` records that are older than this many days; how many those were. */
  purge: (days: number, limit: number): Promise<number> =>
    deleteSome(db, usage, sql`${usage.day} < ${today} - ${days}::int`, limit),
});

export type UsageStore = ReturnType<typeof createUsageStore>;
