import { eq, lt, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { gateways } from './schema.ts';

/** How long a gateway counts as living after its last sign of life. */
const leaseSeconds = 15;
const keepSeconds = 3600;
const lease = sql.raw(`make_interval(secs => ${leaseSeconds})`);

/**
 * Whether the gateway whose id is in `column` lives, by the database's clock; false for null. While the database was away nobody
 * could give a sign of life, so after its start every gateway has its time anew.
 */
export const isServing = (column: PgColumn): SQL<boolean> =>
  sql<boolean>`exists (
    select 1 from ${gateways}
    where ${gateways.id} = ${column} and greatest(${gateways.aliveUntil}, pg_postmaster_start_time() + ${lease}) > now()
  )`;

/** Which gateways live. */
export const createGatewayStore = (db: Database) => ({
  /** A sign of life. */
  async renew(id: string): Promise<void> {
    const aliveUntil = sql`now() + ${lease}`;
    await db
      .insert(gateways)
      .values({ id, aliveUntil })
      .onConflictDoUpdate({ target: gateways.id, set: { aliveUntil } });
  },

  /** It has stopped: what it leaves may be taken over at once. */
  async leave(id: string): Promise<void> {
    await db.delete(gateways).where(eq(gateways.id, id));
  },

  /** Forgets up to `limit` that died long ago; how many those were. */
  purge: (limit: number): Promise<number> =>
    deleteSome(db, gateways, lt(gateways.aliveUntil, sql`now() - make_interval(secs => ${keepSeconds})`), limit),
});

export type GatewayStore = ReturnType<typeof createGatewayStore>;
