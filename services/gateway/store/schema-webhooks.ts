import { sql } from 'drizzle-orm';
import { boolean, index, integer, jsonb, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core';
import { instant, tenants } from './schema.ts';

/** URLs to which the events of a tenant are posted. Their secrets are derived from the secret of the deployment. */
export const webhooks = pgTable(
  'webhooks',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    url: text('url').notNull(),
    types: text('types').array().notNull(),
    enabled: boolean('enabled').notNull().default(true),
    /** The number of its secret. The one before it signs too until `formerUntil`, and those from `signsFrom` on until `olderUntil`. */
    secretNumber: integer('secret_number').notNull().default(0),
    signsFrom: integer('signs_from').notNull().default(0),
    formerUntil: instant('former_until'),
    olderUntil: instant('older_until'),
    /** Since when all deliveries have failed. */
    failingSince: instant('failing_since'),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [index('webhooks_tenant').on(table.tenantId, table.createdAt, table.id)],
);

/**
 * Events, with a row for each webhook: triggers on `boxes`, `executions`, `file_exports` and `usage` write them in the transaction that causes
 * them. While a row is pending, `nextAt` is its next attempt, or the end of the lease of the gateway that makes one.
 */
export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    id: text('id').primaryKey(),
    webhookId: text('webhook_id')
      .notNull()
      .references(() => webhooks.id, { onDelete: 'cascade' }),
    type: text('type').notNull(),
    payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
    /** Of events that may be noticed several times, at most one with the same text is kept for a webhook. */
    once: text('once'),
    state: text('state', { enum: ['pending', 'delivered', 'failed'] })
      .notNull()
      .default('pending'),
    attempts: integer('attempts').notNull().default(0),
    nextAt: instant('next_at').notNull().defaultNow(),
    createdAt: instant('created_at').notNull().defaultNow(),
    deliveredAt: instant('delivered_at'),
    lastStatus: integer('last_status'),
    lastError: text('last_error'),
  },
  (table) => [
    index('webhook_deliveries_due').on(table.webhookId, table.nextAt).where(sql`${table.state} = 'pending'`),
    index('webhook_deliveries_list').on(table.webhookId, table.createdAt, table.id),
    index('webhook_deliveries_created').on(table.createdAt),
    uniqueIndex('webhook_deliveries_once').on(table.webhookId, table.once),
  ],
);
