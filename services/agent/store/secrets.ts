import { eq, sql } from 'drizzle-orm';
import type { Database } from './database.ts';
import { secrets } from './schema.ts';

/** Secrets of the deployment: the first agent that needs one creates it, all others read the same. */
export const createSecretStore = (db: Database) => ({
  async get(name: string, proposed: string): Promise<string> {
    await db.insert(secrets).values({ name, value: proposed }).onConflictDoNothing();
    const [row] = await db.select().from(secrets).where(eq(secrets.name, name));
    return row?.value ?? proposed;
  },

  /** Resolves once the database responds. */
  async ping(): Promise<void> {
    await db.execute(sql`select 1`);
  },
});
