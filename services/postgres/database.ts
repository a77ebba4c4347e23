import { setTimeout as sleep } from 'node:timers/promises';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { ConfigurationError } from '../configuration-error.ts';
import { onceThere } from './away.ts';

export interface Connection<S extends Record<string, unknown>> {
  db: NodePgDatabase<S>;
  /** Connections now, and statements that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  close(): Promise<void>;
}

/** The folder, lock and journal of migrations; drizzle's default journal if none is given. */
interface Migrations {
  folder: string;
  /** Any number that is the same in every process that migrates the same tables: only one of them does so at a time. */
  lock: number;
  /** The PostgreSQL schema with the journal of migrations. */
  notedIn?: string;
}

export interface DatabaseOptions<S> {
  schema: S;
  migrations: Migrations;
  /** Closed with the database. */
  pool: pg.Pool;
}

const migrationLockMs = 120_000;
/** A migration that waits for tables blocks all queries behind it, so it gives up and tries again. */
const tableLockMs = 5000;
const migrationTries = 20;
const betweenTriesMs = 500;
/** A frozen server does not close connections. */
const closeMs = 3000;

/**
 * Migrates the tables of a PostgreSQL under a lock, and then opens it with a pool. Waits up to half a minute for an
 * unavailable server; later failures have `unavailable` in the cause of what drizzle throws.
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
  // The statement that a broken connection fails reports the break, too.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [migrations.lock]);
    await client.query(`set lock_timeout = ${tableLockMs}`);
    await refuseOlder(client, migrations);
    await migrateAgain(drizzle(client), migrations);
  } finally {
    // The lock ends with the connection.
    await client.end();
  }
};

/**
 * Throws when a database has recorded only migrations from before the first existing one. The first one has the time of the last
 * migration that it replaces, so drizzle skips it in databases that ran all of those.
 */
const refuseOlder = async (client: pg.Client, { folder, notedIn = 'drizzle' }: Migrations): Promise<void> => {
  const notes = `${notedIn}.__drizzle_migrations`;
  const { rowCount } = await client.query('select where to_regclass($1) is not null', [notes]);
  if (rowCount === 0) return;
  const { rows } = await client.query<{ last: string | null }>(`select max(created_at) as last from ${notes}`);
  const [noted, first] = [rows[0]?.last ?? null, readMigrationFiles({ migrationsFolder: folder })[0]];
  if (noted === null || first === undefined || Number(noted) >= first.folderMillis) return;
  throw new ConfigurationError(
    'The database was last used by a version that is too old to be upgraded from. Upgrade in docs/operate.md says what to start before this one.',
  );
};

/**
 * Migrates while older processes use the same tables: an attempt that fails because of them has changed nothing, and is
 * repeated.
 */
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

/** Whether a statement failed because of others: in a deadlock, or waiting for a lock. */
const isInTheWay = (error: unknown): boolean => {
  for (let one = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth++)
    if ('code' in one && (one.code === '40P01' || one.code === '55P03')) return true;
  return false;
};
