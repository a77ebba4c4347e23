import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  date,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import type { BoxCause, Cause, Contents, ExecutionDone, KeyScope, Limits } from '#contract';
import type { Reference } from './reference.ts';

export const instant = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 3 });

/** One row: the name with which drivers label their instances, so that deployments on one host do not sweep each other's. */
export const deployments = pgTable('deployments', {
  id: text('id').primaryKey(),
  /** The key from which the tokens of instances are derived: 244 random bits that the database generates. */
  secret: text('secret').notNull().default(sql`gen_random_uuid()::text || gen_random_uuid()::text`),
  createdAt: instant('created_at').notNull().defaultNow(),
});

/** The place that holds the name of each site: its gateways manage the instances there. */
export const sites = pgTable('sites', {
  name: text('name').primaryKey(),
  place: text('place').notNull(),
});

/**
 * Gateways that are alive, each with a lease that it renews. Work of a gateway that is not in this table, or whose lease has expired, may
 * be taken over by any other.
 */
export const gateways = pgTable('gateways', {
  id: text('id').primaryKey(),
  aliveUntil: instant('alive_until').notNull(),
  /** Since when its heartbeats have come without a gap. */
  steadySince: instant('steady_since').notNull().defaultNow(),
  /** Null for a gateway of the previous version. */
  site: text('site'),
  place: text('place'),
});

/** An app that holds API keys. Rows stay: usage and the audit log name them. */
export const tenants = pgTable(
  'tenants',
  {
    id: text('id').primaryKey(),
    name: text('name').notNull(),
    /** Only keys of an active tenant are accepted. */
    state: text('state', { enum: ['active', 'suspended', 'deleted'] })
      .notNull()
      .default('active'),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [index('tenants_created').on(table.createdAt, table.id)],
);

/**
 * The quotas of a tenant; null is no limit. Triggers on `boxes`, `volumes` and `executions` enforce the first two and storage for all gateways
 * together: they lock the row here, count, and refuse with SQLSTATE CBQ01.
 */
export const quotas = pgTable('quotas', {
  tenantId: text('tenant_id')
    .primaryKey()
    .references(() => tenants.id, { onDelete: 'cascade' }),
  boxes: integer('boxes'),
  concurrentExecutions: integer('concurrent_executions'),
  cpuSecondsPerDay: integer('cpu_seconds_per_day'),
  storageMb: integer('storage_mb'),
  requestsPerMinute: integer('requests_per_minute'),
  templates: integer('templates'),
});

/** Requests that gateways have leased of a tenant's current minute. Unlogged: a crash of the database loses a minute. */
export const requestWindows = pgTable('request_windows', {
  tenantId: text('tenant_id')
    .primaryKey()
    .references(() => tenants.id, { onDelete: 'cascade' }),
  startedAt: instant('started_at').notNull(),
  taken: integer('taken').notNull(),
  /** The size of the latest lease. */
  granted: integer('granted').notNull(),
});

/**
 * The usage of tenants, by day (UTC) and user; '' stands for boxes without a user. Triggers count boxes and executions, in the
 * transaction that makes a box ready or ends an execution; the meter adds time and CPU, see `instances`.
 */
export const usage = pgTable(
  'usage',
  {
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    userId: text('user_id').notNull(),
    day: date('day', { mode: 'string' }).notNull(),
    boxes: integer('boxes').notNull().default(0),
    boxMs: bigint('box_ms', { mode: 'number' }).notNull().default(0),
    executions: integer('executions').notNull().default(0),
    wallMs: bigint('wall_ms', { mode: 'number' }).notNull().default(0),
    cpuMs: bigint('cpu_ms', { mode: 'number' }).notNull().default(0),
    peakMemoryBytes: bigint('peak_memory_bytes', { mode: 'number' }).notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.day, table.userId] })],
);

/** Changes of tenants and keys, written in the transaction of the change. A trigger refuses to update or delete a row. */
export const audit = pgTable(
  'audit',
  {
    id: text('id')
      .primaryKey()
      .$defaultFn(() => randomUUID()),
    createdAt: instant('created_at').notNull().defaultNow(),
    actor: text('actor').notNull(),
    action: text('action').notNull(),
    tenantId: text('tenant_id'),
    target: text('target').notNull(),
    requestId: text('request_id'),
    details: jsonb('details').$type<Record<string, unknown>>().notNull(),
  },
  (table) => [index('audit_created').on(table.createdAt, table.id)],
);

/** API keys; only the SHA-256 of a key is stored. */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    hash: text('hash').notNull(),
    name: text('name').notNull(),
    /** Null for all scopes. */
    scopes: jsonb('scopes').$type<KeyScope[]>(),
    createdAt: instant('created_at').notNull().defaultNow(),
    expiresAt: instant('expires_at'),
    revokedAt: instant('revoked_at'),
  },
  (table) => [index('api_keys_tenant').on(table.tenantId)],
);

/** A volume of a box, as it was when the box was created. */
export interface BoxVolume {
  id: string;
  name: string;
  sizeMb: number;
  /** The name of its folder in `/volumes`. */
  folder: string;
  readOnly: boolean;
}

/** Boxes, including those that have ended, with the cause of their end. `version` increases with every change of state. */
export const boxes = pgTable(
  'boxes',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    userId: text('user_id'),
    /** The name that its user gave it. */
    name: text('name'),
    reusable: text('reusable'),
    state: text('state', {
      enum: ['creating', 'ready', 'paused', 'hibernated', 'deleting', 'deleted', 'failed', 'lost'],
    }).notNull(),
    version: integer('version').notNull().default(1),
    cause: jsonb('cause').$type<BoxCause>(),
    template: text('template').notNull(),
    /** The configured template whose image it has, for a box of a template that was built; otherwise null. */
    base: text('base'),
    metadata: jsonb('metadata').$type<Record<string, string>>().notNull(),
    limits: jsonb('limits').$type<Limits>().notNull(),
    network: text('network', { enum: ['none', 'internet'] }).notNull(),
    volumes: jsonb('volumes').$type<BoxVolume[]>().notNull().default([]),
    idleSeconds: integer('idle_seconds').notNull(),
    createdAt: instant('created_at').notNull().defaultNow(),
    lastActiveAt: instant('last_active_at').notNull().defaultNow(),
    expiresAt: instant('expires_at').notNull(),
    endedAt: instant('ended_at'),
    startupMs: integer('startup_ms'),
    startupKind: text('startup_kind', { enum: ['warm', 'cold'] }),
    startupCpuMs: integer('startup_cpu_ms'),
    /** The gateway that creates it, while it is `creating`. */
    gatewayId: text('gateway_id'),
    onIdle: text('on_idle', { enum: ['delete', 'pause', 'hibernate'] })
      .notNull()
      .default('delete'),
    /** The task that a gateway performs on the box, its id, and its lease. */
    task: text('task', { enum: ['pause', 'freeze', 'resume', 'hibernate', 'checkpoint', 'restore', 'connect'] }),
    taskId: text('task_id'),
    taskSince: instant('task_since'),
    taskUntil: instant('task_until'),
    /** After a failed task: no task starts automatically before this. */
    retryAt: instant('retry_at'),
    /** The blob that holds its files. */
    checkpointId: text('checkpoint_id'),
    checkpointAt: instant('checkpoint_at'),
    /** The size of its files in the blob store. */
    storageBytes: bigint('storage_bytes', { mode: 'number' }).notNull().default(0),
    /** The CPU time that it had used when its files were saved. */
    spentCpuMs: bigint('spent_cpu_ms', { mode: 'number' }).notNull().default(0),
    /** When its current instance was restored from a checkpoint. */
    restoredAt: instant('restored_at'),
  },
  (table) => [
    index('boxes_tenant').on(table.tenantId, table.createdAt, table.id),
    index('boxes_state').on(table.state),
    index('boxes_task').on(table.taskUntil).where(sql`${table.task} is not null`),
    index('boxes_living').on(table.tenantId, table.createdAt, table.id).where(sql`${table.endedAt} is null`),
    index('boxes_user').on(table.tenantId, table.userId, table.createdAt, table.id),
    index('boxes_expires').on(table.expiresAt).where(sql`${table.endedAt} is null`),
    index('boxes_ended').on(table.endedAt).where(sql`${table.endedAt} is not null`),
    uniqueIndex('boxes_one_per_user')
      .on(table.tenantId, table.reusable)
      .where(sql`${table.reusable} is not null and ${table.state} in ('creating', 'ready', 'paused', 'hibernated')`),
    uniqueIndex('boxes_one_per_name')
      .on(table.tenantId, table.userId, table.name)
      .where(sql`${table.name} is not null and ${table.state} in ('creating', 'ready', 'paused', 'hibernated')`),
  ],
);

/** Files of boxes in the blob store. A row is written before its blob and deleted after it; `boxes.checkpointId` names the current one. */
export const blobs = pgTable(
  'blobs',
  {
    id: text('id').primaryKey(),
    boxId: text('box_id').notNull(),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [index('blobs_box').on(table.boxId), index('blobs_created').on(table.createdAt)],
);

/**
 * The instances of drivers. A row is written before the driver creates the instance, and deleted when nothing of it is left. An
 * instance of a pool has no box, and is `warm` once it is ready to become one; a claim gives it its box, once and for good.
 */
export const instances = pgTable(
  'instances',
  {
    id: text('id').primaryKey(),
    boxId: text('box_id').references(() => boxes.id, { onDelete: 'cascade' }),
    /** The site where it runs. The column is called `driver` because a site has the name of its driver by default. */
    site: text('driver').notNull(),
    state: text('state', { enum: ['creating', 'warm', 'running', 'destroying'] }).notNull(),
    address: text('address'),
    /** The pool that it was created for; `gatewayId` is the gateway that creates it, while it is `creating`. */
    template: text('template'),
    generation: text('generation'),
    gatewayId: text('gateway_id'),
    /** Its memory limit: that of its template, or that of its box. */
    memoryMb: integer('memory_mb').notNull().default(0),
    createdAt: instant('created_at').notNull().defaultNow(),
    /** The time and the CPU time up to which its box is counted in `usage`. */
    meteredAt: instant('metered_at').notNull().defaultNow(),
    meteredCpuMs: bigint('metered_cpu_ms', { mode: 'number' }).notNull().default(0),
  },
  (table) => [
    index('instances_box').on(table.boxId),
    index('instances_warm')
      .on(table.site, table.template, table.generation, table.createdAt)
      .where(sql`${table.state} = 'warm'`),
  ],
);

/** The target of each pool, for all gateways, as published by the gateway that started or changed last. */
export const pools = pgTable(
  'pools',
  {
    site: text('driver').notNull(),
    template: text('template').notNull(),
    /** A digest of everything that a warm instance is made from. */
    generation: text('generation').notNull(),
    size: integer('size').notNull(),
  },
  (table) => [primaryKey({ columns: [table.site, table.template] })],
);

/** The languages and contents of each template, as reported by an instance of this revision before anybody used it. */
export const templateLanguages = pgTable(
  'template_languages',
  {
    site: text('site').notNull(),
    template: text('template').notNull(),
    revision: text('revision').notNull(),
    languages: text('languages').array().notNull(),
    contents: jsonb('contents').$type<Contents>(),
  },
  (table) => [primaryKey({ columns: [table.site, table.template] })],
);

/** Boxes that wait for capacity, in the order of `turn`, then of age. A gateway updates `seenAt` of its boxes while it is alive. */
export const waiting = pgTable(
  'waiting',
  {
    boxId: text('box_id')
      .primaryKey()
      .references(() => boxes.id, { onDelete: 'cascade' }),
    tenantId: text('tenant_id').notNull(),
    site: text('driver').notNull(),
    template: text('template').notNull(),
    /** The generation of the warm instances that fit the box; null when none would. */
    generation: text('generation'),
    turn: integer('turn').notNull(),
    createdAt: instant('created_at').notNull().defaultNow(),
    seenAt: instant('seen_at').notNull().defaultNow(),
    until: instant('until').notNull(),
  },
  (table) => [index('waiting_tenant').on(table.tenantId)],
);

/** Executions: their owner, their status and their `done` event. Their outputs are in the journal of the box. */
export const executions = pgTable(
  'executions',
  {
    id: text('id').primaryKey(),
    boxId: text('box_id')
      .notNull()
      .references(() => boxes.id, { onDelete: 'cascade' }),
    tenantId: text('tenant_id').notNull(),
    context: text('context'),
    language: text('language'),
    status: text('status', {
      enum: ['running', 'ok', 'error', 'timeout', 'interrupted', 'oom', 'killed', 'output_limit', 'lost'],
    }).notNull(),
    /** The wall time that it may take once it has started. */
    timeoutMs: integer('timeout_ms'),
    /** The gateway that follows it to its end. */
    gatewayId: text('gateway_id'),
    cause: jsonb('cause').$type<Cause>(),
    done: jsonb('done').$type<ExecutionDone>(),
    createdAt: instant('created_at').notNull().defaultNow(),
    finishedAt: instant('finished_at'),
  },
  (table) => [
    index('executions_box').on(table.boxId, table.createdAt, table.id),
    index('executions_running').on(table.boxId).where(sql`${table.status} = 'running'`),
    index('executions_running_tenant').on(table.tenantId).where(sql`${table.status} = 'running'`),
  ],
);

/** One row for each Idempotency-Key: the request and its response. The operator, who is not a tenant, has keys too. */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    tenantId: text('tenant_id').notNull(),
    key: text('key').notNull(),
    requestHash: text('request_hash').notNull(),
    status: integer('status'),
    body: text('body'),
    contentType: text('content_type'),
    /** The object that the request created or started. */
    reference: jsonb('reference').$type<Reference>(),
    /** `reference` as a path, for gateways that know only that. A trigger keeps the two equal. */
    location: text('location'),
    /** The gateway that performs the request. */
    gatewayId: text('gateway_id'),
    /** The claim of the request, which distinguishes it from others that had the key. */
    claimId: text('claim_id'),
    /** Whether the requested work may have started. */
    mayHaveStarted: boolean('may_have_started').notNull().default(false),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [
    primaryKey({ columns: [table.tenantId, table.key] }),
    index('idempotency_keys_created').on(table.createdAt),
    index('idempotency_keys_answers').on(table.tenantId, table.createdAt).where(sql`${table.body} is not null`),
  ],
);
