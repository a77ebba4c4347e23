import { type SQL, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import type { Database } from './database.ts';

/**
 * Deletes up to `limit` rows of a table for which `where` holds, and returns their number. Rows that another transaction has locked are
 * left for the next call.
 */
export const deleteSome = async (db: Database, table: PgTable, where: SQL, limit: number): Promise<number> => {
  const some = sql`select ctid from ${table} where ${where} limit ${limit} for update skip locked`;
  const { rowCount } = await db.execute(sql`delete from ${table} where ctid = any(array(${some}))`);
  return rowCount ?? 0;
};
