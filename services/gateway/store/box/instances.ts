import { and, asc, eq, gt, inArray, notExists, or, sql } from 'drizzle-orm';
import type { Database } from '../database.ts';
import { boxes, instances } from '../schema.ts';

export type InstanceRow = typeof instances.$inferSelect;

/** What the gateway that ends a box has for it before others help. */
const endSeconds = 10;

/** What drivers were asked to make. */
export const createInstanceStore = (db: Database) => ({
  /** A page of a site's instances in the order of their ids, for comparison with what the driver has. */
  async after(site: string, after: string, limit: number): Promise<InstanceRow[]> {
    return await db
      .select()
      .from(instances)
      .where(and(eq(instances.site, site), gt(instances.id, after)))
      .orderBy(asc(instances.id))
      .limit(limit);
  },

  /** Those of these instances that are boxes. */
  async runningAmong(ids: readonly string[]): Promise<InstanceRow[]> {
    return await db
      .select()
      .from(instances)
      .where(and(inArray(instances.id, [...ids]), eq(instances.state, 'running')));
  },

  /**
   * Some of a site's instances that have to go; chosen by chance, so that one that will not go keeps nobody waiting. Whoever has
   * just ended a box still asks it how its runs went, and destroys it then.
   */
  async destroying(site: string, limit: number): Promise<InstanceRow[]> {
    const beingEnded = db
      .select({ one: sql`1` })
      .from(boxes)
      .where(and(eq(boxes.id, instances.boxId), sql`${boxes.endedAt} > now() - make_interval(secs => ${endSeconds})`));
    return await db
      .select()
      .from(instances)
      .where(and(eq(instances.site, site), eq(instances.state, 'destroying'), notExists(beingEnded)))
      .orderBy(sql`random()`)
      .limit(limit);
  },

  async of(boxId: string): Promise<InstanceRow[]> {
    return await db.select().from(instances).where(eq(instances.boxId, boxId));
  },

  /**
   * Up to `limit` of a site's instances that were being made for a box that waits for none any more have to go: it has ended, has another
   * one, or is not being restored. Such a row is what is left when the database was away while its gateway gave it up.
   */
  async giveUp(site: string, limit: number): Promise<void> {
    const isWaited = or(eq(boxes.state, 'creating'), and(eq(boxes.state, 'hibernated'), eq(boxes.task, 'restore')));
    const isCreating = and(eq(instances.site, site), eq(instances.state, 'creating'));
    const left = db
      .select({ id: instances.id })
      .from(instances)
      .innerJoin(boxes, eq(boxes.id, instances.boxId))
      .where(and(isCreating, sql`(${isWaited}) is not true`))
      .limit(limit);
    await db
      .update(instances)
      .set({ state: 'destroying' })
      .where(and(isCreating, inArray(instances.id, left)));
  },

  /** It is to be destroyed, and its box, which may get another one, has nothing more to do with it. */
  async abandon(id: string): Promise<void> {
    await db.transaction(async (tx) => {
      const [row] = await tx.select({ boxId: instances.boxId }).from(instances).where(eq(instances.id, id));
      // The box first, as its deletion does: in another order the two could wait for each other.
      if (row?.boxId) await tx.select({ id: boxes.id }).from(boxes).where(eq(boxes.id, row.boxId)).for('update');
      await tx.update(instances).set({ state: 'destroying', boxId: null }).where(eq(instances.id, id));
      if (row?.boxId) await markDeleted(tx, row.boxId);
    });
  },

  /** An instance is gone: forgets it, and its box is `deleted` when it was on its way there. */
  async forget(id: string): Promise<void> {
    await db.transaction(async (tx) => {
      const [gone] = await tx.delete(instances).where(eq(instances.id, id)).returning();
      if (gone?.boxId) await markDeleted(tx, gone.boxId);
    });
  },
});

/** A box that was on its way to be deleted has nothing any more that embodies it. */
const markDeleted = (tx: Pick<Database, 'update'>, boxId: string) =>
  tx
    .update(boxes)
    .set({ state: 'deleted', version: sql`${boxes.version} + 1` })
    .where(and(eq(boxes.id, boxId), eq(boxes.state, 'deleting')));

export type InstanceStore = ReturnType<typeof createInstanceStore>;
