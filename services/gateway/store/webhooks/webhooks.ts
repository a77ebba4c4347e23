import { and, desc, eq, sql } from 'drizzle-orm';
import type { Page, PageQuery, UpdateWebhook } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { lockTenant } from '../lock-tenant.ts';
import { webhooks } from '../schema-webhooks.ts';

export type WebhookRow = typeof webhooks.$inferSelect;

/** Webhooks of tenants. */
export const createWebhookStore = (db: Database) => {
  const own = (tenantId: string, id: string) => and(eq(webhooks.tenantId, tenantId), eq(webhooks.id, id));

  return {
    /** Inserts a webhook, unless the tenant has `most`: then undefined is returned. */
    async insert(webhook: typeof webhooks.$inferInsert, most: number): Promise<WebhookRow | undefined> {
      return await db.transaction(async (tx) => {
        await lockTenant(tx, webhook.tenantId);
        if ((await tx.$count(webhooks, eq(webhooks.tenantId, webhook.tenantId))) >= most) return undefined;
        const [row] = await tx.insert(webhooks).values(webhook).returning();
        return row;
      });
    },

    async find(tenantId: string, id: string): Promise<WebhookRow | undefined> {
      const [row] = await db.select().from(webhooks).where(own(tenantId, id));
      return row;
    },

    async list(tenantId: string, query: PageQuery): Promise<Page<WebhookRow>> {
      const rows = await db
        .select()
        .from(webhooks)
        .where(and(eq(webhooks.tenantId, tenantId), behind(query.cursor, webhooks.createdAt, webhooks.id)))
        .orderBy(desc(webhooks.createdAt), desc(webhooks.id))
        .limit(query.limit + 1);
      return toPage(rows, query.limit);
    },

    /** Changes a webhook. One that is enabled again counts as not failing. */
    async update(tenantId: string, id: string, { types, enabled }: UpdateWebhook): Promise<WebhookRow | undefined> {
      const [row] = await db
        .update(webhooks)
        .set({
          types: types ?? sql`${webhooks.types}`,
          ...(enabled !== undefined && { enabled }),
          ...(enabled && { failingSince: null }),
        })
        .where(own(tenantId, id))
        .returning();
      return row;
    },

    /**
     * Gives a webhook its next secret. The former one signs until the end of the grace period. Those of earlier rotations whose periods
     * have not ended sign until the first of all these ends: a rotation whose response was lost can be repeated, and none gives a secret
     * more time. At most `most` sign.
     */
    async rotate(tenantId: string, id: string, graceSeconds: number, most: number): Promise<WebhookRow | undefined> {
      const next = sql`${webhooks.secretNumber} + 1`;
      const until = sql`now() + make_interval(secs => ${graceSeconds})`;
      const hasFormer = sql`${webhooks.formerUntil} > now()`;
      const hasOlder = sql`${webhooks.olderUntil} > now()`;
      const signing = sql`case when not coalesce(${hasFormer}, false) then ${webhooks.secretNumber}
        when ${hasOlder} then ${webhooks.signsFrom} else ${webhooks.secretNumber} - 1 end`;
      const [row] = await db
        .update(webhooks)
        .set({
          secretNumber: next,
          signsFrom: graceSeconds > 0 ? sql`greatest(${signing}, ${next} - ${most - 1}::int)` : next,
          formerUntil: until,
          // Of nulls, `least` takes no notice.
          olderUntil: sql`least(${until}, case when ${hasFormer} then ${webhooks.formerUntil} end, case when ${hasOlder} then ${webhooks.olderUntil} end)`,
        })
        .where(own(tenantId, id))
        .returning();
      return row;
    },

    /** Deletes a webhook with its deliveries; returns whether there was one. */
    async remove(tenantId: string, id: string): Promise<boolean> {
      const { rowCount } = await db.delete(webhooks).where(own(tenantId, id));
      return rowCount === 1;
    },
  };
};

export type WebhookStore = ReturnType<typeof createWebhookStore>;
