import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { type Connection, openDatabase } from '../../postgres/database.ts';
import { createPool } from '../../postgres/pool.ts';
import * as schema from './schema.ts';

export type Database = NodePgDatabase<typeof schema>;

/** A time relative to the clock of the database. */
export const fromNow = (seconds: number) => sql`now() + make_interval(secs => ${seconds})`;

/** Any number that is the same in every agent: only one of them migrates at a time. */
const migrationLock = 7_302_113_806;

/** Opens the agents' database and migrates its tables, which have a PostgreSQL schema of their own. */
export const connectDatabase = (url: string, onError: (error: Error) => void): Promise<Connection<typeof schema>> =>
  openDatabase(url, {
    schema,
    migrations: { folder: join(import.meta.dirname, 'migrations'), lock: migrationLock, notedIn: 'agent' },
    pool: createPool(url, { onError }),
  });
