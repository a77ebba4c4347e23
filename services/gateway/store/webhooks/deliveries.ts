import { and, desc, eq, lt, sql } from 'drizzle-orm';
import type { Page, PageQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { tenants } from '../schema.ts';
import { webhookDeliveries, webhooks } from '../schema-webhooks.ts';

export type DeliveryRow = typeof webhookDeliveries.$inferSelect;

/** A delivery that this gateway attempts until its lease ends. */
export interface ClaimedDelivery {
  id: string;
  webhookId: string;
  tenantId: string;
  url: string;
  /** The numbers of the secrets that sign, the newest first. */
  secrets: number[];
  payload: Record<string, unknown>;
  /** The number of this attempt, from 1. */
  attempt: number;
}

export interface ClaimRequest {
  limit: number;
  /** The most deliveries of one webhook. */
  each: number;
  /** The most deliveries of one tenant at once. */
  eachTenant: number;
  /** The deliveries that this gateway attempts already: nothing more of their webhooks is claimed. */
  underWay: readonly Pick<ClaimedDelivery, 'webhookId' | 'tenantId'>[];
  leaseSeconds: number;
}

export interface FailedAttempt {
  status: number | null;
  error: string;
  /** When to try again; undefined for never. */
  retrySeconds: number | undefined;
  /** How long a webhook may fail before it is disabled. */
  disableSeconds: number;
}

/** Events on their way to webhooks. Any gateway may attempt a delivery, one at a time. */
export const createDeliveryStore = (db: Database) => {
  /** A delivery in this attempt: not one whose lease has ended since, or that was requested again. */
  const inAttempt = ({ id, attempt }: ClaimedDelivery) =>
    and(eq(webhookDeliveries.id, id), eq(webhookDeliveries.attempts, attempt), eq(webhookDeliveries.state, 'pending'));

  return {
    /** Claims deliveries that are due, a few of each webhook: the longest due of each tenant first, then their second ones. */
    async claim({ limit, each, eachTenant, underWay, leaseSeconds }: ClaimRequest): Promise<ClaimedDelivery[]> {
      const tenantsUnderWay = sql.param(underWay.map(({ tenantId }) => tenantId));
      const webhooksUnderWay = sql.param(underWay.map(({ webhookId }) => webhookId));
      const { rows } = await db.execute<{
        id: string;
        webhook_id: string;
        tenant_id: string;
        url: string;
        secret_number: number;
        signs_from: number;
        payload: Record<string, unknown>;
        attempts: number;
      }>(sql`
        update ${webhookDeliveries} claimed
        set attempts = claimed.attempts + 1, next_at = now() + make_interval(secs => ${leaseSeconds})
        from (
          select * from (
            select due.id, due.next_at, hook.tenant_id, hook.url, hook.secret_number,
              case when not coalesce(hook.former_until > now(), false) then hook.secret_number
                when hook.older_until > now() then hook.signs_from else hook.secret_number - 1 end as signs_from,
              row_number() over (partition by hook.tenant_id order by due.next_at)
                + (select count(*) from unnest(${tenantsUnderWay}::text[]) busy (tenant_id) where busy.tenant_id = hook.tenant_id)
                as place
            from ${webhooks} hook
              join ${tenants} owner on owner.id = hook.tenant_id and owner.state = 'active'
              cross join lateral (
                select waits.id, waits.next_at from ${webhookDeliveries} waits
                where waits.webhook_id = hook.id and waits.state = 'pending' and waits.next_at <= now()
                order by waits.next_at limit ${each} for update skip locked
              ) due
            where hook.enabled and not (hook.id = any(${webhooksUnderWay}::text[]))
          ) ranked
          where place <= ${eachTenant}
          order by place, next_at limit ${limit}
        ) chosen
        where claimed.id = chosen.id
        returning claimed.id, claimed.webhook_id, chosen.tenant_id, chosen.url, chosen.secret_number, chosen.signs_from,
          claimed.payload, claimed.attempts`);
      return rows.map((row) => ({
        id: row.id,
        webhookId: row.webhook_id,
        tenantId: row.tenant_id,
        url: row.url,
        secrets: Array.from({ length: row.secret_number - row.signs_from + 1 }, (_, age) => row.secret_number - age),
        payload: row.payload,
        attempt: row.attempts,
      }));
    },

    /** Records that a webhook has accepted a delivery. */
    async succeed(delivery: ClaimedDelivery, status: number): Promise<void> {
      await db
        .update(webhookDeliveries)
        .set({ state: 'delivered', deliveredAt: sql`now()`, lastStatus: status, lastError: null })
        .where(inAttempt(delivery));
      await db
        .update(webhooks)
        .set({ failingSince: null })
        .where(and(eq(webhooks.id, delivery.webhookId), sql`${webhooks.failingSince} is not null`));
    },

    /** Records a failed attempt, and disables a webhook that has only failed for long. */
    async fail(
      delivery: ClaimedDelivery,
      { status, error, retrySeconds, disableSeconds }: FailedAttempt,
    ): Promise<void> {
      const next = retrySeconds === undefined ? undefined : sql`now() + make_interval(secs => ${retrySeconds})`;
      await db
        .update(webhookDeliveries)
        .set({ lastStatus: status, lastError: error, ...(next ? { nextAt: next } : { state: 'failed' }) })
        .where(inAttempt(delivery));
      const since = sql`coalesce(${webhooks.failingSince}, now())`;
      await db
        .update(webhooks)
        .set({
          failingSince: since,
          enabled: sql`${webhooks.enabled} and ${since} > now() - make_interval(secs => ${disableSeconds})`,
        })
        .where(eq(webhooks.id, delivery.webhookId));
    },

    async list(webhookId: string, query: PageQuery): Promise<Page<DeliveryRow>> {
      const rows = await db
        .select()
        .from(webhookDeliveries)
        .where(
          and(
            eq(webhookDeliveries.webhookId, webhookId),
            behind(query.cursor, webhookDeliveries.createdAt, webhookDeliveries.id),
          ),
        )
        .orderBy(desc(webhookDeliveries.createdAt), desc(webhookDeliveries.id))
        .limit(query.limit + 1);
      return toPage(rows, query.limit);
    },

    /** Makes a delivery due again, with all its attempts; returns whether there is one. */
    async redeliver(webhookId: string, id: string): Promise<boolean> {
      const { rowCount } = await db
        .update(webhookDeliveries)
        .set({ state: 'pending', attempts: 0, nextAt: sql`now()`, deliveredAt: null })
        .where(and(eq(webhookDeliveries.webhookId, webhookId), eq(webhookDeliveries.id, id)));
      return rowCount === 1;
    },

    /** Deletes up to `limit` deliveries that are this old; returns their number. */
    purge: (afterSeconds: number, limit: number): Promise<number> =>
      deleteSome(
        db,
        webhookDeliveries,
        lt(webhookDeliveries.createdAt, sql`now() - make_interval(secs => ${afterSeconds})`),
        limit,
      ),
  };
};

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;
