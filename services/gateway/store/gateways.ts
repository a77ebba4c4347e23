import { and, eq, exists, lt, ne, or, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { gateways, instances, sites } from './schema.ts';

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

/** A gateway: its id, and where it serves. */
export interface Serving {
  id: string;
  site: string;
  place: string;
}

/**
 * Why a place cannot have the name of a site: what is left of the place that bears it, or what this place itself has left under the
 * name of another site.
 */
export type Occupied = { by: 'gateways' | 'instances'; place: string } | { by: 'former'; site: string };

/** Which gateways live. */
export const createGatewayStore = (db: Database) => ({
  /**
   * The first sign of life of a gateway, whose place bears the name of its site from now on. A place that bore it before is displaced
   * when none of its gateways lives, and none of its instances is left or it is `replaced`, a place or `any`; else it is returned and
   * nothing has changed.
   */
  async enter({ id, site, place }: Serving, replaced?: string): Promise<Occupied | undefined> {
    return await db.transaction(async (tx) => {
      await tx.insert(sites).values({ name: site, place }).onConflictDoNothing();
      const former = await tx
        .select({ name: sites.name })
        .from(sites)
        .where(
          and(
            eq(sites.place, place),
            ne(sites.name, site),
            or(
              exists(tx.select().from(instances).where(eq(instances.site, sites.name))),
              exists(
                tx
                  .select()
                  .from(gateways)
                  .where(and(eq(gateways.site, sites.name), sql`${gateways.aliveUntil} > now()`)),
              ),
            ),
          ),
        )
        .limit(1);
      if (former[0]) return { by: 'former', site: former[0].name };
      const [bearer] = await tx.select().from(sites).where(eq(sites.name, site)).for('update');
      if (bearer && bearer.place !== place) {
        const living = await tx
          .select({ id: gateways.id })
          .from(gateways)
          .where(and(eq(gateways.site, site), eq(gateways.place, bearer.place), sql`${gateways.aliveUntil} > now()`))
          .limit(1);
        if (living.length > 0) return { by: 'gateways', place: bearer.place };
        const left = await tx.select({ id: instances.id }).from(instances).where(eq(instances.site, site)).limit(1);
        const isReplaced = replaced === 'any' || replaced === bearer.place;
        if (left.length > 0 && !isReplaced) return { by: 'instances', place: bearer.place };
        await tx.update(sites).set({ place }).where(eq(sites.name, site));
      }
      // A statement whose answer was lost is sent again.
      const aliveUntil = sql`now() + ${lease}`;
      await tx
        .insert(gateways)
        .values({ id, site, place, aliveUntil })
        .onConflictDoUpdate({ target: gateways.id, set: { aliveUntil } });
      return undefined;
    });
  },

  /** Whether a place still bears the name of its site: another one may have taken it over while its gateways stood still. */
  async bears({ site, place }: Pick<Serving, 'site' | 'place'>): Promise<boolean> {
    const found = await db
      .select({ name: sites.name })
      .from(sites)
      .where(and(eq(sites.name, site), eq(sites.place, place)));
    return found.length > 0;
  },

  /** A sign of life. */
  async renew({ id, site, place }: Serving): Promise<void> {
    const aliveUntil = sql`now() + ${lease}`;
    const hadGap = sql`${gateways.aliveUntil} < now() + ${lease} - make_interval(secs => ${gapSeconds})`;
    await db
      .insert(gateways)
      .values({ id, site, place, aliveUntil })
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
