import { join } from 'node:path';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { type Connection, openDatabase } from '../../postgres/database.ts';
import { createPool } from '../../postgres/pool.ts';
import * as schema from './schema.ts';
import { inStatement } from './statement-span.ts';
import { asOverQuota } from './usage/over-quota.ts';

export type Database = NodePgDatabase<typeof schema>;

/** The id of the advisory lock that lets one gateway at a time migrate; any number that all gateways share. */
const migrationLock = 7_302_113_805;

/** Creates the connection pool: statements are traced, and refusals by a quota trigger become `quota_exceeded`. */
const createGatewayPool = (url: string, onError: (error: Error) => void) =>
  createPool(url, { onError, around: inStatement, translate: asOverQuota });

/** Opens the database of the gateways and migrates its schema. */
export const connectDatabase = (url: string, onError: (error: Error) => void): Promise<Connection<typeof schema>> =>
  openDatabase(url, {
    schema,
    migrations: { folder: join(import.meta.dirname, 'migrations'), lock: migrationLock },
    pool: createGatewayPool(url, onError),
  });
