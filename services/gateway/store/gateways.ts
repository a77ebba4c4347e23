import { eq, lt, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { gateways } from './schema.ts';

/** How long a gateway counts as living after its last sign of life. */
const leaseSeconds = 15;
/** A sign that comes this long after the last one tells that something stood still. */
const gapSeconds = 8;
const keepSeconds = 3600;
const lease = sql.raw(`make_interval(secs => ${leaseSeconds})`);

/**
 * Whether the gateway whose id is in `column` lives, by the database's clock; false for null. While the database was away or stood
 * still nobody could give a sign of life: one that is late is dead only if another could, all that time.
 */
export const isServing = (column: PgColumn): SQL<boolean> =>
  sql<boolean>`exists (
    select 1 from ${gateways}
    where ${gateways.id} = ${column} and (
      ${gateways.aliveUntil} > now()
      or not exists (
        select 1 from ${gateways} witness
        where witness.alive_until > now() and witness.steady_since < now() - ${lease}
      )
    )
  )`;

/** Which gateways live. */
export const createGatewayStore = (db: Database) => ({
  /** A sign of life. */
  async renew(id: string): Promise<void> {
    const aliveUntil = sql`now() + ${lease}`;
    const hadGap = sql`${gateways.aliveUntil} < now() + ${lease} - make_interval(secs => ${gapSeconds})`;
    await db
      .insert(gateways)
      .values({ id, aliveUntil })
      .onConflictDoUpdate({
        target: gateways.id,
        set: { aliveUntil, steadySince: sql`case when ${hadGap} then now() else ${gateways.steadySince} end` },
      });
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
