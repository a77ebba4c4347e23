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
import type { BoxCause, Cause, ExecutionDone, KeyScope, Limits } from '#contract';

const instant = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 3 });

/** One row: the name under which drivers label what they make, so that deployments on one host do not sweep each other. */
export const deployments = pgTable('deployments', {
  id: text('id').primaryKey(),
  /** What the tokens of its instances are made of: 244 random bits that the database has chosen. */
  secret: text('secret').notNull().default(sql`gen_random_uuid()::text || gen_random_uuid()::text`),
  createdAt: instant('created_at').notNull().defaultNow(),
});

/** Which place bears the name of a site: the one whose gateways look after what lives there. */
export const sites = pgTable('sites', {
  name: text('name').primaryKey(),
  place: text('place').notNull(),
});

/**
 * Gateways that serve, each until a time that it puts off while it lives. What belongs to one that is not here, or whose time
 * is over, may be taken over by any other.
 */
export const gateways = pgTable('gateways', {
  id: text('id').primaryKey(),
  aliveUntil: instant('alive_until').notNull(),
  /** Since when its signs have come without a gap. */
  steadySince: instant('steady_since').notNull().defaultNow(),
  /** Null for one of the version before. */
  site: text('site'),
  place: text('place'),
});

/** An app that holds API keys. Rows stay: usage and the audit log name them. */
export const tenants = pgTable(
  'tenants',
  {
    id: text('id').primaryKey(),
    name: text('name').notNull(),
    /** Only the keys of an active one let requests in. */
    state: text('state', { enum: ['active', 'suspended', 'deleted'] })
      .notNull()
      .default('active'),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [index('tenants_created').on(table.createdAt, table.id)],
);

/**
 * What a tenant may use at most; null is no limit. Triggers on `boxes` and `executions` keep the first two and storage, so that no
 * number of gateways can exceed them together: they lock the row here, count, and refuse with SQLSTATE CBQ01.
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
});

/** Requests that gateways have set aside of a tenant's minute. Unlogged: a crash of the database forgets a minute. */
export const requestWindows = pgTable('request_windows', {
  tenantId: text('tenant_id')
    .primaryKey()
    .references(() => tenants.id, { onDelete: 'cascade' }),
  startedAt: instant('started_at').notNull(),
  taken: integer('taken').notNull(),
  /** What the last one to ask was given. */
  granted: integer('granted').notNull(),
});

/**
 * What tenants have used, by day (UTC) and user; '' stands for boxes without one. Boxes and executions are added by triggers, in the
 * transaction that makes the one ready or ends the other; time and CPU by the meter, see `instances`.
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

/** Who changed what of tenants and keys; written with the change. A trigger refuses to change or remove a row. */
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

/** API keys; only the SHA-256 of a key is kept. */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    hash: text('hash').notNull(),
    name: text('name').notNull(),
    /** What it may do; null for everything. */
    scopes: jsonb('scopes').$type<KeyScope[]>(),
    createdAt: instant('created_at').notNull().defaultNow(),
    expiresAt: instant('expires_at'),
    revokedAt: instant('revoked_at'),
  },
  (table) => [index('api_keys_tenant').on(table.tenantId)],
);

/** Boxes, also the ended ones, which tell why they ended. `version` rises with every change of state. */
export const boxes = pgTable(
  'boxes',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id')
      .notNull()
      .references(() => tenants.id, { onDelete: 'cascade' }),
    userId: text('user_id'),
    reusable: text('reusable'),
    state: text('state', {
      enum: ['creating', 'ready', 'paused', 'hibernated', 'deleting', 'deleted', 'failed', 'lost'],
    }).notNull(),
    version: integer('version').notNull().default(1),
    cause: jsonb('cause').$type<BoxCause>(),
    template: text('template').notNull(),
    metadata: jsonb('metadata').$type<Record<string, string>>().notNull(),
    limits: jsonb('limits').$type<Limits>().notNull(),
    network: text('network', { enum: ['none', 'internet'] }).notNull(),
    idleSeconds: integer('idle_seconds').notNull(),
    createdAt: instant('created_at').notNull().defaultNow(),
    lastActiveAt: instant('last_active_at').notNull().defaultNow(),
    expiresAt: instant('expires_at').notNull(),
    endedAt: instant('ended_at'),
    startupMs: integer('startup_ms'),
    startupKind: text('startup_kind', { enum: ['warm', 'cold'] }),
    startupCpuMs: integer('startup_cpu_ms'),
    /** Which gateway makes it, while it is `creating`. */
    gatewayId: text('gateway_id'),
    onIdle: text('on_idle', { enum: ['delete', 'pause', 'hibernate'] })
      .notNull()
      .default('delete'),
    /** What a gateway is doing about the state, under which id, and until when it counts as alive. */
    task: text('task', { enum: ['pause', 'freeze', 'resume', 'hibernate', 'checkpoint', 'restore'] }),
    taskId: text('task_id'),
    taskSince: instant('task_since'),
    taskUntil: instant('task_until'),
    /** After a task that failed: no other by itself before this. */
    retryAt: instant('retry_at'),
    /** The blob that holds its files. */
    checkpointId: text('checkpoint_id'),
    checkpointAt: instant('checkpoint_at'),
    /** What its files take in the blob store. */
    storageBytes: bigint('storage_bytes', { mode: 'number' }).notNull().default(0),
    /** The CPU time that it had used when its files were put aside. */
    spentCpuMs: bigint('spent_cpu_ms', { mode: 'number' }).notNull().default(0),
    /** When what embodies it now got its files from a checkpoint. */
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
  ],
);

/** Files of boxes in the blob store. A row is written before its blob and goes after it; which one counts the box says. */
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
 * What a driver was asked to make. A row is written before the driver is asked, and goes when nothing is left of it. One of a
 * pool has no box, and is `warm` once it could be one; a claim gives it its box, once and for good.
 */
export const instances = pgTable(
  'instances',
  {
    id: text('id').primaryKey(),
    boxId: text('box_id').references(() => boxes.id, { onDelete: 'cascade' }),
    /** Where it lives. The column bears the name of what a site is called by default. */
    site: text('driver').notNull(),
    state: text('state', { enum: ['creating', 'warm', 'running', 'destroying'] }).notNull(),
    address: text('address'),
    /** The pool that it was made for, and by which gateway, while it is `creating`. */
    template: text('template'),
    generation: text('generation'),
    gatewayId: text('gateway_id'),
    /** What it may use, as it was made or as its box is to have it. */
    memoryMb: integer('memory_mb').notNull().default(0),
    createdAt: instant('created_at').notNull().defaultNow(),
    /** Until when its box has been counted in `usage`, and with how much CPU time. */
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

/** The pools as the gateway that was started or changed last wants them, for all gateways. */
export const pools = pgTable(
  'pools',
  {
    site: text('driver').notNull(),
    template: text('template').notNull(),
    /** Stands for all that a warm instance is made from. */
    generation: text('generation').notNull(),
    size: integer('size').notNull(),
  },
  (table) => [primaryKey({ columns: [table.site, table.template] })],
);

/** Boxes that wait for room, in the order of `turn`, then of age. Those of a gateway that is gone are not `seenAt` any more. */
export const waiting = pgTable(
  'waiting',
  {
    boxId: text('box_id')
      .primaryKey()
      .references(() => boxes.id, { onDelete: 'cascade' }),
    tenantId: text('tenant_id').notNull(),
    site: text('driver').notNull(),
    template: text('template').notNull(),
    /** Of the warm instances that would do; null when none would. */
    generation: text('generation'),
    turn: integer('turn').notNull(),
    createdAt: instant('created_at').notNull().defaultNow(),
    seenAt: instant('seen_at').notNull().defaultNow(),
    until: instant('until').notNull(),
  },
  (table) => [index('waiting_tenant').on(table.tenantId)],
);

/** Executions: their owner, their fate, and what `done` said. Their outputs are in the journal of the box. */
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
    /** The wall time that it may take once it runs. */
    timeoutMs: integer('timeout_ms'),
    /** Which gateway follows it to its end. */
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

/** One row per Idempotency-Key: who asked for what, and what was answered. The admin, who is no tenant, has keys too. */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    tenantId: text('tenant_id').notNull(),
    key: text('key').notNull(),
    requestHash: text('request_hash').notNull(),
    status: integer('status'),
    body: text('body'),
    contentType: text('content_type'),
    /** Where the events of what was started can be read again, for an answer that was a stream. */
    location: text('location'),
    /** Which gateway does what was asked for. */
    gatewayId: text('gateway_id'),
    /** Which of its requests, and which of those that have had the key. */
    claimId: text('claim_id'),
    /** Whether what was asked for may have begun. */
    mayHaveStarted: boolean('may_have_started').notNull().default(false),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [
    primaryKey({ columns: [table.tenantId, table.key] }),
    index('idempotency_keys_created').on(table.createdAt),
    index('idempotency_keys_answers').on(table.tenantId, table.createdAt).where(sql`${table.body} is not null`),
  ],
);

/** What stands for a key, for one box and a time: only its SHA-256 is kept, and it goes with the key. */
const keyStandIn = () => ({
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

/** Tickets not redeemed yet. */
export const tickets = pgTable('tickets', keyStandIn(), (table) => [
  index('tickets_expires').on(table.expiresAt),
  index('tickets_box').on(table.boxId),
]);

/** Browsers that have redeemed a ticket for one port of a box, by their cookie. */
export const portSessions = pgTable('port_sessions', { ...keyStandIn(), port: integer('port').notNull() }, (table) => [
  index('port_sessions_expires').on(table.expiresAt),
  index('port_sessions_box').on(table.boxId),
]);
