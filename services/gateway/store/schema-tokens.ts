import { bigint, boolean, index, integer, pgTable, text } from 'drizzle-orm/pg-core';
import { apiKeys, boxes, instant, tenants } from './schema.ts';

/** Columns of a token that grants the rights of a key for one box and a limited time. Only its SHA-256 is stored; it is deleted with the key. */
const tokenColumns = () => ({
  hash: text('hash').primaryKey(),
  tenantId: text('tenant_id')
    .notNull()
    .references(() => tenants.id, { onDelete: 'cascade' }),
  keyId: text('key_id')
    .notNull()
    .references(() => apiKeys.id, { onDelete: 'cascade' }),
  boxId: text('box_id')
    .notNull()
    .references(() => boxes.id, { onDelete: 'cascade' }),
  expiresAt: instant('expires_at').notNull(),
});

/** Tickets that have not been redeemed. */
export const tickets = pgTable('tickets', tokenColumns(), (table) => [
  index('tickets_expires').on(table.expiresAt),
  index('tickets_box').on(table.boxId),
]);

/** Sessions of browsers that have redeemed a ticket for one port of a box, by their cookie. */
export const portSessions = pgTable(
  'port_sessions',
  { ...tokenColumns(), port: integer('port').notNull() },
  (table) => [index('port_sessions_expires').on(table.expiresAt), index('port_sessions_box').on(table.boxId)],
);

/** Links to files of boxes. `usedAt` is set when a link that is valid once is used. */
export const links = pgTable(
  'links',
  {
    id: text('id').primaryKey(),
    ...tokenColumns(),
    hash: text('hash').notNull().unique(),
    path: text('path').notNull(),
    method: text('method', { enum: ['GET', 'PUT'] }).notNull(),
    once: boolean('once').notNull(),
    /** The largest file that may be written; null for a link to read. */
    maxBytes: bigint('max_bytes', { mode: 'number' }),
    download: text('download'),
    createdAt: instant('created_at').notNull().defaultNow(),
    usedAt: instant('used_at'),
  },
  (table) => [
    index('links_box').on(table.boxId, table.createdAt, table.id),
    index('links_expires').on(table.expiresAt),
  ],
);
