import { and, asc, desc, eq, exists, gt, gte, inArray, isNotNull, isNull, lt, lte, or, sql } from 'drizzle-orm';
import { dayQuerySchema, type Page, type UsageQuery } from '#contract';
import { foreignCursor } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { instances, usage } from '../schema.ts';
import { templates } from '../schema-templates.ts';

export type UsageRow = Omit<typeof usage.$inferSelect, 'tenantId'>;

/** Usage of an instance since its start, as measured by the host. */
export interface Metered {
  instance: string;
  cpuMs: number;
  peakMemoryBytes: number;
}

/** What was metered since then is fresh: each sweep meters an instance once, however many gateways there are. */
export const freshMs = 4000;

const today = sql`(now() at time zone 'utc')::date`;
const cursorPattern = /^(\d{4}-\d{2}-\d{2}) (.*)$/s;

/** Parses the position after which a page begins: this user on this day. */
const readCursor = (cursor: string | undefined): { day: string; user: string } | undefined => {
  if (cursor === undefined) return undefined;
  const [, day = '', user = ''] = cursorPattern.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (!dayQuerySchema.safeParse(day).success || user.includes('\0')) throw foreignCursor();
  return { day, user };
};

/** The usage of tenants, by day and user. */
export const createUsageStore = (db: Database) => ({
  /** Returns a page of usage, the newest day first. */
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

  /**
   * Returns a page of the ids of instances that run boxes, including paused boxes, or are kept warm for a template of a tenant, and whose
   * use is no longer fresh.
   */
  async unmetered(site: string, after: string, limit: number): Promise<string[]> {
    const ofTenant = db.select({ one: sql`1` }).from(templates).where(eq(templates.id, instances.template));
    const rows = await db
      .select({ id: instances.id })
      .from(instances)
      .where(
        and(
          eq(instances.site, site),
          or(
            and(eq(instances.state, 'running'), isNotNull(instances.boxId)),
            and(inArray(instances.state, ['creating', 'warm']), isNull(instances.boxId), exists(ofTenant)),
          ),
          gt(instances.id, after),
          lt(instances.meteredAt, sql`now() - make_interval(secs => ${freshMs / 1000})`),
        ),
      )
      .orderBy(asc(instances.id))
      .limit(limit);
    return rows.map(({ id }) => id);
  },

  /** Sets the CPU time from which an instance is metered, unless it has been metered already. */
  async begin(instanceId: string, cpuMs: number): Promise<void> {
    await db
      .update(instances)
      .set({ meteredCpuMs: cpuMs })
      .where(and(eq(instances.id, instanceId), eq(instances.meteredCpuMs, 0)));
  },

  /** Returns the CPU time of an instance at its last metering. */
  async lastCpuMs(instanceId: string): Promise<number> {
    const [row] = await db
      .select({ cpuMs: instances.meteredCpuMs })
      .from(instances)
      .where(eq(instances.id, instanceId));
    return row?.cpuMs ?? 0;
  },

  /**
   * Adds what the boxes of instances have used since their last metering: the time until now or until their end, and the CPU time measured
   * by the host. A concurrent second call adds nothing. Of an instance that is warm, the CPU time counts for the tenant whose template it is
   * of, and for nobody if that is configured. Rows are locked in order, so that concurrent calls wait for each other.
   */
  async meter(metered: readonly Metered[]): Promise<void> {
    const column = (of: (one: Metered) => string | number) => sql.param(metered.map(of));
    await db.execute(sql`
      with measured as (
        select * from unnest(
          ${column(({ instance }) => instance)}::text[],
          ${column(({ cpuMs }) => cpuMs)}::bigint[],
          ${column(({ peakMemoryBytes }) => peakMemoryBytes)}::bigint[]
        ) as of (id, cpu_ms, peak_memory_bytes)
      ), before as (
        select i.id, coalesce(b.tenant_id, t.tenant_id) as tenant_id, coalesce(b.user_id, '') as user_id,
          case when b.id is null then 0 else measured.peak_memory_bytes end as peak_memory_bytes,
          least(now(), coalesce(b.ended_at, now())) as until,
          case when b.id is null then 0
            else greatest(0, extract(epoch from least(now(), coalesce(b.ended_at, now())) - i.metered_at) * 1000) end as box_ms,
          greatest(0, measured.cpu_ms - i.metered_cpu_ms) as cpu_ms
        from measured join instances i on i.id = measured.id left join boxes b on b.id = i.box_id
          left join templates t on t.id = i.template and i.box_id is null
        where b.id is not null or t.id is not null
        order by i.id
        for update of i
      ), noted as (
        update instances i
        set metered_at = greatest(i.metered_at, before.until), metered_cpu_ms = i.metered_cpu_ms + before.cpu_ms
        from before where i.id = before.id
      )
      insert into usage (tenant_id, user_id, day, box_ms, cpu_ms, peak_memory_bytes)
        select tenant_id, user_id, ${today}, sum(box_ms)::bigint, sum(cpu_ms)::bigint, max(peak_memory_bytes) from before
        group by tenant_id, user_id
        order by tenant_id, user_id
        on conflict (tenant_id, day, user_id) do update set
          box_ms = usage.box_ms + excluded.box_ms,
          cpu_ms = usage.cpu_ms + excluded.cpu_ms,
          peak_memory_bytes = greatest(usage.peak_memory_bytes, excluded.peak_memory_bytes)`);
  },

  /** Deletes up to `limit` records that are older than this many days; returns their number. */
  purge: (days: number, limit: number): Promise<number> =>
    deleteSome(db, usage, sql`${usage.day} < ${today} - ${days}::int`, limit),
});

export type UsageStore = ReturnType<typeof createUsageStore>;
