import { and, count, eq, exists, lt, ne, or, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { gateways, instances, sites } from './schema.ts';

/** How long a gateway counts as alive after its last heartbeat. */
const leaseSeconds = 15;
/** A heartbeat gap longer than this means that the gateway or the database stalled. */
const gapSeconds = 8;
const keepSeconds = 3600;
const lease = sql.raw(`make_interval(secs => ${leaseSeconds})`);

/**
 * Whether the gateway whose id is in `column` is alive, by the database's clock; false for null. While the database was unavailable or
 * stalled, no gateway could send a heartbeat: a late gateway counts as dead only if another one could send them all that time.
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

/** A gateway, with the site and the place where it serves. */
export interface Serving {
  id: string;
  site: string;
  place: string;
}

/** One of the parts into which instances are divided by their ids. */
export interface Share {
  part: number;
  parts: number;
}

/**
 * Why a place cannot take the name of a site: gateways or instances of the place that holds it remain, or this place has remains of its
 * own under the name of another site.
 */
export type Occupied = { by: 'gateways' | 'instances'; place: string } | { by: 'former'; site: string };

/** The gateways that are alive, and the place that holds each site. */
export const createGatewayStore = (db: Database) => ({
  /**
   * Registers a gateway, whose place holds the name of its site from now on. The place that held it before is displaced when none of its
   * gateways is alive, and either none of its instances is left or `replaced` names it (or is `any`). Otherwise nothing changes, and the
   * obstacle is returned.
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
      const [holder] = await tx.select().from(sites).where(eq(sites.name, site)).for('update');
      if (holder && holder.place !== place) {
        const living = await tx
          .select({ id: gateways.id })
          .from(gateways)
          .where(and(eq(gateways.site, site), eq(gateways.place, holder.place), sql`${gateways.aliveUntil} > now()`))
          .limit(1);
        if (living.length > 0) return { by: 'gateways', place: holder.place };
        const left = await tx.select({ id: instances.id }).from(instances).where(eq(instances.site, site)).limit(1);
        const isReplaced = replaced === 'any' || replaced === holder.place;
        if (left.length > 0 && !isReplaced) return { by: 'instances', place: holder.place };
        await tx.update(sites).set({ place }).where(eq(sites.name, site));
      }
      // The insert is repeatable: a statement whose response was lost is sent again.
      const aliveUntil = sql`now() + ${lease}`;
      await tx
        .insert(gateways)
        .values({ id, site, place, aliveUntil })
        .onConflictDoUpdate({ target: gateways.id, set: { aliveUntil } });
      return undefined;
    });
  },

  /** Whether a place still holds the name of its site: another one may have taken it over while its gateways stalled. */
  async holdsSite({ site, place }: Pick<Serving, 'site' | 'place'>): Promise<boolean> {
    const found = await db
      .select({ name: sites.name })
      .from(sites)
      .where(and(eq(sites.name, site), eq(sites.place, place)));
    return found.length > 0;
  },

  /** Records a heartbeat. */
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

  /**
   * Returns the share of a living gateway in what the gateways of its site do for each running instance. Each share has at least `least`
   * instances: a few are the share of every gateway.
   */
  async shareOf({ id, site }: Pick<Serving, 'id' | 'site'>, least: number): Promise<Share> {
    const running = db.$count(instances, and(eq(instances.site, site), eq(instances.state, 'running')));
    const [found] = await db
      .select({
        before: sql<number>`(count(*) filter (where ${gateways.id} < ${id}))::int`,
        living: count(),
        running: sql<number>`${running}::int`,
      })
      .from(gateways)
      .where(and(eq(gateways.site, site), sql`${gateways.aliveUntil} > now()`));
    const { before = 0, living = 1, running: all = 0 } = found ?? {};
    const parts = Math.max(1, Math.min(living, Math.floor(all / least)));
    return { part: before % parts, parts };
  },

  /** Removes a gateway that has stopped: its unfinished work may be taken over at once. */
  async leave(id: string): Promise<void> {
    await db.delete(gateways).where(eq(gateways.id, id));
  },

  /** Deletes up to `limit` gateways that died long ago; returns their number. */
  purge: (limit: number): Promise<number> =>
    deleteSome(db, gateways, lt(gateways.aliveUntil, sql`now() - make_interval(secs => ${keepSeconds})`), limit),
});

export type GatewayStore = ReturnType<typeof createGatewayStore>;
