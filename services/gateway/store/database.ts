import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { createPool } from './pool.ts';
import * as schema from './schema.ts';

export type Database = NodePgDatabase<typeof schema>;

export interface Connection {
  db: Database;
  /** Connections now, and statements that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  close(): Promise<void>;
}

/** Any number, the same in every gateway: only one of them migrates at a time. */
const migrationLock = 7_302_113_805;
const migrationLockMs = 120_000;
/** Those who come after a migration that waits for tables wait behind it: it lets them pass, and tries again. */
const tableLockMs = 5000;
const migrationTries = 20;
const betweenTriesMs = 500;
/** A server that stands still does not say goodbye. */
const closeMs = 3000;

/**
 * Opens a pool on PostgreSQL and brings its schema up to date under a lock. A database that is away shows as `unavailable`
 * in the cause of what drizzle throws.
 */
export const connectDatabase = async (url: string, onError: (error: Error) => void): Promise<Connection> => {
  await migrateUnderLock(url);
  const pool = createPool(url, onError);
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

const migrateUnderLock = async (url: string): Promise<void> => {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    lock_timeout: migrationLockMs,
  });
  // A connection that breaks is reported by the statement that it breaks, too.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [migrationLock]);
    await client.query(`set lock_timeout = ${tableLockMs}`);
    await migrateAgain(drizzle(client));
  } finally {
    // The lock goes with the connection.
    await client.end();
  }
};

/** Migrates, with older gateways at work on the same tables: what is refused for that has changed nothing, and is tried again. */
const migrateAgain = async (db: NodePgDatabase): Promise<void> => {
  for (let tried = 1; ; tried++) {
    try {
      return await migrate(db, { migrationsFolder: join(import.meta.dirname, 'migrations') });
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
