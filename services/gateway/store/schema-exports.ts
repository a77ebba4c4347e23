import { bigint, boolean, index, integer, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import type { ExportedFile, ExportFailure } from '#contract';
import { boxes, instant, tenants } from './schema.ts';

/** Exports of files to stores of tenants. Neither keys nor URLs of the caller are stored, so only the gateway that began one can end it. */
export const fileExports = pgTable(
  'file_exports',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    boxId: text('box_id')
      .notNull()
      .references(() => boxes.id, { onDelete: 'cascade' }),
    gatewayId: text('gateway_id'),
    state: text('state', { enum: ['running', 'done', 'failed'] })
      .notNull()
      .default('running'),
    target: text('target'),
    /** Whether its gateway has to end it. */
    isCanceled: boolean('is_canceled').notNull().default(false),
    /** The files that have arrived, written at the end, and what they amount to. */
    files: jsonb('files').$type<ExportedFile[]>().notNull().default([]),
    fileCount: integer('file_count').notNull().default(0),
    sizeBytes: bigint('size_bytes', { mode: 'number' }).notNull().default(0),
    skipped: integer('skipped').notNull().default(0),
    failure: jsonb('failure').$type<ExportFailure>(),
    createdAt: instant('created_at').notNull().defaultNow(),
    endedAt: instant('ended_at'),
  },
  (table) => [
    index('file_exports_box').on(table.boxId, table.createdAt, table.id),
    index('file_exports_tenant').on(table.tenantId, table.state),
    index('file_exports_state').on(table.state, table.endedAt),
  ],
);
