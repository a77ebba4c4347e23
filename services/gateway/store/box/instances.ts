import { and, asc, eq, gt, inArray, notExists, or, sql } from 'drizzle-orm';
import type { Database } from '../database.ts';
import { boxes, instances } from '../schema.ts';

export type InstanceRow = typeof instances.$inferSelect;

/** How long the gateway that ends a box has to destroy its instance before others do. */
const endSeconds = 10;

/** The instances of drivers. */
export const createInstanceStore = (db: Database) => ({
  /** Returns a page of a site's instances by id, for comparison with those of the driver. */
  async after(site: string, after: string, limit: number): Promise<InstanceRow[]> {
    return await db
      .select()
      .from(instances)
      .where(and(eq(instances.site, site), gt(instances.id, after)))
      .orderBy(asc(instances.id))
      .limit(limit);
  },

  /** Returns those of these instances that are running boxes. */
  async runningAmong(ids: readonly string[]): Promise<InstanceRow[]> {
    return await db
      .select()
      .from(instances)
      .where(and(inArray(instances.id, [...ids]), eq(instances.state, 'running')));
  },

  /**
   * Returns some of a site's instances to destroy, chosen at random, so that one that cannot be destroyed delays no other. Instances of
   * boxes that have just ended are left out: their gateway still reads the results of their runs and then destroys them.
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
   * Marks up to `limit` instances of a site for destruction that are being created for a box that no longer waits for one: it has ended, has
   * another one, or is not being restored. Such a row remains when the database was unavailable while its gateway gave the instance up.
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

  /** Marks an instance for destruction and detaches it from its box, which may get another one. */
  async abandon(id: string): Promise<void> {
    await db.transaction(async (tx) => {
      const row = await lockBoxOf(tx, id);
      await tx.update(instances).set({ state: 'destroying', boxId: null }).where(eq(instances.id, id));
      if (row?.boxId) await markDeleted(tx, row.boxId);
    });
  },

  /** Deletes the row of a destroyed instance; its box becomes `deleted` when it was `deleting`. */
  async forget(id: string): Promise<void> {
    await db.transaction(async (tx) => {
      await lockBoxOf(tx, id);
      const [gone] = await tx.delete(instances).where(eq(instances.id, id)).returning();
      if (gone?.boxId) await markDeleted(tx, gone.boxId);
    });
  },
});

/** Locks the box of an instance before the instance itself, as the end of a box does: in another order the two could deadlock. */
const lockBoxOf = async (tx: Pick<Database, 'select'>, id: string): Promise<Pick<InstanceRow, 'boxId'> | undefined> => {
  const [row] = await tx.select({ boxId: instances.boxId }).from(instances).where(eq(instances.id, id));
  if (row?.boxId) await tx.select({ id: boxes.id }).from(boxes).where(eq(boxes.id, row.boxId)).for('update');
  return row;
};

/** `deleting` → `deleted`, for a box that has no instance left. */
const markDeleted = (tx: Pick<Database, 'select' | 'update'>, boxId: string) => {
  const left = tx.select({ id: instances.id }).from(instances).where(eq(instances.boxId, boxId));
  return tx
    .update(boxes)
    .set({ state: 'deleted', version: sql`${boxes.version} + 1` })
    .where(and(eq(boxes.id, boxId), eq(boxes.state, 'deleting'), notExists(left)));
};

export type InstanceStore = ReturnType<typeof createInstanceStore>;
