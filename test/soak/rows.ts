import pg from 'pg';
import { databaseUrl } from '../api/harness.ts';

/** Counts the rows of each table in the database of a gateway. */
export const countRows = async (dataDir: string): Promise<Map<string, number>> => {
  const client = new pg.Client({ connectionString: await databaseUrl(dataDir), query_timeout: 30_000 });
  await client.connect();
  try {
    const tables = await client.query<{ name: string }>(
      "select table_name as name from information_schema.tables where table_schema = 'public' order by 1",
    );
    const counts = new Map<string, number>();
    for (const { name } of tables.rows) {
      const counted = await client.query<{ n: number }>(`select count(*)::int as n from ${pg.escapeIdentifier(name)}`);
      counts.set(name, counted.rows[0]?.n ?? 0);
    }
    return counts;
  } finally {
    await client.end();
  }
};
