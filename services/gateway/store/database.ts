import { join } from 'node:path';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { CodeBoxError } from '#contract';
import { asOverQuota } from './over-quota.ts';
import * as schema from './schema.ts';
import { inStatement } from './statement-span.ts';

export type Database = NodePgDatabase<typeof schema>;

export interface Connection {
  db: Database;
  /** Connections now, and statements that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  close(): Promise<void>;
}

/** Any number, the same in every gateway: only one of them migrates at a time. */
const migrationLock = 7_302_113_805;

/** SQLSTATE classes and socket errors that say "the database is away", as opposed to "the query is wrong". */
const isAway = (error: unknown): boolean => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return (
    /^(08|57P|53|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN)/.test(code) || /timeout|terminated/i.test(String(error))
  );
};

const translate = (error: unknown): unknown =>
  isAway(error)
    ? new CodeBoxError('unavailable', 'The database does not answer.', { cause: error, retryAfterSeconds: 2 })
    : (asOverQuota(error) ?? error);

/**
 * Opens a pool on PostgreSQL and brings its schema up to date under a lock. A database that is away shows as `unavailable`
 * in the cause of what drizzle throws.
 */
export const connectDatabase = async (url: string, onError: (error: Error) => void): Promise<Connection> => {
  await migrateUnderLock(url);
  const reject = (error: unknown) => Promise.reject(translate(error));
  const pool = new pg.Pool({
    connectionString: url,
    max: 16,
    connectionTimeoutMillis: 5000,
    idleTimeoutMillis: 60_000,
    statement_timeout: 15_000,
    query_timeout: 20_000,
  });
  // An idle connection that breaks would otherwise end the process; the pool replaces it.
  pool.on('error', onError);
  pool.on('connect', (client) => {
    // While it is lent out the pool does not listen, and a connection that breaks then would end the process too.
    client.on('error', onError);
    const send = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
    Object.assign(client, {
      // The pool itself calls this with a callback.
      query: (...args: unknown[]) =>
        typeof args.at(-1) === 'function' ? send(...args) : inStatement(args[0], () => send(...args)).catch(reject),
    });
  });
  const query = pool.query.bind(pool) as (...args: unknown[]) => Promise<unknown>;
  const connect = pool.connect.bind(pool) as (...args: unknown[]) => Promise<unknown> | undefined;
  Object.assign(pool, {
    query: (...args: unknown[]) => inStatement(args[0], () => query(...args)).catch(reject),
    // The pool itself calls this with a callback.
    connect: (...args: unknown[]) => connect(...args)?.catch(reject),
  });
  return {
    db: drizzle(pool, { schema }),
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    close: () => pool.end(),
  };
};

const migrateUnderLock = async (url: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [migrationLock]);
    await migrate(drizzle(client), { migrationsFolder: join(import.meta.dirname, 'migrations') });
  } finally {
    // The lock goes with the connection.
    await client.end();
  }
};
