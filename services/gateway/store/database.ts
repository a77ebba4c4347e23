import { join } from 'node:path';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { type Connection, openDatabase } from '../../postgres/database.ts';
import { createPool } from '../../postgres/pool.ts';
import * as schema from './schema.ts';
import { inStatement } from './statement-span.ts';
import { asOverQuota } from './usage/over-quota.ts';

export type Database = NodePgDatabase<typeof schema>;

/** Any number, the same in every gateway: only one of them migrates at a time. */
const migrationLock = 7_302_113_805;

/** The pool of a gateway: its statements are traced, and what the database refuses over a quota is told as that. */
const createGatewayPool = (url: string, onError: (error: Error) => void) =>
  createPool(url, { onError, around: inStatement, translate: asOverQuota });

/** Opens the database of the gateways, with its schema brought up to date. */
export const connectDatabase = (url: string, onError: (error: Error) => void): Promise<Connection<typeof schema>> =>
  openDatabase(url, {
    schema,
    migrations: { folder: join(import.meta.dirname, 'migrations'), lock: migrationLock },
    pool: createGatewayPool(url, onError),
  });
