import { setTimeout as sleep } from 'node:timers/promises';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { onceThere } from './away.ts';

export interface Connection<S extends Record<string, unknown>> {
  db: NodePgDatabase<S>;
  /** Connections now, and statements that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  close(): Promise<void>;
}

/** Where migrations are, what holds them back, and where they are noted: with drizzle's own unless told. */
interface Migrations {
  folder: string;
  /** Any number, the same in every process that migrates the same tables: only one of them does so at a time. */
  lock: number;
  /** The PostgreSQL schema that notes which were done. */
  notedIn?: string;
}

export interface DatabaseOptions<S> {
  schema: S;
  migrations: Migrations;
  /** Closed with the database. */
  pool: pg.Pool;
}

const migrationLockMs = 120_000;
/** Those who come after a migration that waits for tables wait behind it: it lets them pass, and tries again. */
const tableLockMs = 5000;
const migrationTries = 20;
const betweenTriesMs = 500;
/** A server that stands still does not say goodbye. */
const closeMs = 3000;

/**
 * Brings the tables of a PostgreSQL up to date under a lock, and then uses a pool on it. One that is away is waited for, half a minute
 * long; later that shows as `unavailable` in the cause of what drizzle throws.
 */
export const openDatabase = async <S extends Record<string, unknown>>(
  url: string,
  { schema, migrations, pool }: DatabaseOptions<S>,
): Promise<Connection<S>> => {
  await onceThere(() => migrateUnderLock(url, migrations));
  return {
    db: drizzle(pool, { schema }),
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    close: () => Promise.race([pool.end(), sleep(closeMs, undefined, { ref: false })]),
  };
};

const migrateUnderLock = async (url: string, migrations: Migrations): Promise<void> => {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    lock_timeout: migrationLockMs,
  });
  // A connection that breaks is reported by the statement that it breaks, too.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [migrations.lock]);
    await client.query(`set lock_timeout = ${tableLockMs}`);
    await migrateAgain(drizzle(client), migrations);
  } finally {
    // The lock goes with the connection.
    await client.end();
  }
};

/** Migrates, with older processes at work on the same tables: what is refused for that has changed nothing, and is tried again. */
const migrateAgain = async (db: NodePgDatabase, { folder, notedIn }: Migrations): Promise<void> => {
  const place = { migrationsFolder: folder, ...(notedIn !== undefined && { migrationsSchema: notedIn }) };
  for (let tried = 1; ; tried++) {
    try {
      return await migrate(db, place);
    } catch (error) {
      if (tried === migrationTries || !isInTheWay(error)) throw error;
      await sleep(betweenTriesMs);
    }
  }
};

/** Whether a statement came to nothing because of others: in a deadlock, or with a lock that it did not get in time. */
const isInTheWay = (error: unknown): boolean => {
  for (let one = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth++)
    if ('code' in one && (one.code === '40P01' || one.code === '55P03')) return true;
  return false;
};
