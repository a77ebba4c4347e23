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
    await migrate(drizzle(client), { migrationsFolder: join(import.meta.dirname, 'migrations') });
  } finally {
    // The lock goes with the connection.
    await client.end();
  }
};
