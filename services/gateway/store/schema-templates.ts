import { bigint, index, integer, jsonb, pgTable, primaryKey, text, uniqueIndex } from 'drizzle-orm/pg-core';
import type { BuildEvent, Limits } from '#contract';
import { instant, tenants } from './schema.ts';

/** Templates that tenants have built; their versions have the rest. */
export const templates = pgTable(
  'templates',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    name: text('name').notNull(),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [uniqueIndex('templates_name').on(table.tenantId, table.name)],
);

/** The settings of boxes from a version, with the configured template whose image they have. */
export interface TemplateSettings {
  base: string;
  limits: Limits;
  network: 'none' | 'internet';
  idleSeconds: number;
  maxLifetimeSeconds: number;
  warm: number;
}

/** Versions of templates. One that is `ready` has a blob with its files and environment, named as that of the box that it was built in. */
export const templateVersions = pgTable(
  'template_versions',
  {
    id: text('id').primaryKey(),
    templateId: text('template_id')
      .notNull()
      .references(() => templates.id, { onDelete: 'cascade' }),
    number: integer('number').notNull(),
    state: text('state', { enum: ['building', 'ready', 'failed', 'replaced'] })
      .notNull()
      .default('building'),
    settings: jsonb('settings').$type<TemplateSettings>().notNull(),
    /** What to build, encrypted as it may have secrets; null when that is over. */
    build: text('build'),
    cause: text('cause'),
    /** The gateway that builds it, its site, and how many attempts have begun, without those that ended with a deliberate stop. */
    gatewayId: text('gateway_id'),
    site: text('site'),
    attempts: integer('attempts').notNull().default(0),
    /** The box that it is built in. */
    boxId: text('box_id'),
    blobId: text('blob_id'),
    storageBytes: bigint('storage_bytes', { mode: 'number' }),
    createdAt: instant('created_at').notNull().defaultNow(),
    finishedAt: instant('finished_at'),
  },
  (table) => [
    uniqueIndex('template_versions_number').on(table.templateId, table.number),
    index('template_versions_state').on(table.state),
    index('template_versions_blob').on(table.blobId),
  ],
);

/** The logs of builds. */
export const buildLogs = pgTable(
  'build_logs',
  {
    versionId: text('version_id')
      .notNull()
      .references(() => templateVersions.id, { onDelete: 'cascade' }),
    seq: integer('seq').notNull(),
    type: text('type').$type<Exclude<BuildEvent['type'], 'done'>>().notNull(),
    text: text('text').notNull(),
  },
  (table) => [primaryKey({ columns: [table.versionId, table.seq] })],
);
