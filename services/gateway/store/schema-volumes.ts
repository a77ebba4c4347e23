import { sql } from 'drizzle-orm';
import { index, integer, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core';
import { instant, tenants } from './schema.ts';

/**
 * File systems that boxes of a tenant share. A row is written before its volume is made and deleted after it is removed. A trigger on `boxes`
 * refuses a box with a volume that is not `ready`.
 */
export const volumes = pgTable(
  'volumes',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    /** Null for one that all boxes of the tenant may have. */
    userId: text('user_id'),
    name: text('name').notNull(),
    sizeMb: integer('size_mb').notNull(),
    /** The site where it is, and whose boxes can have it. */
    site: text('site').notNull(),
    state: text('state', { enum: ['creating', 'ready', 'deleting'] })
      .notNull()
      .default('creating'),
    /** The gateway that makes it, while it is `creating`. */
    gatewayId: text('gateway_id'),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [
    index('volumes_tenant').on(table.tenantId, table.createdAt, table.id),
    index('volumes_unsettled').on(table.site).where(sql`${table.state} <> 'ready'`),
    uniqueIndex('volumes_name')
      .on(table.tenantId, sql`coalesce(${table.userId}, '')`, table.name)
      .where(sql`${table.state} <> 'deleting'`),
  ],
);
