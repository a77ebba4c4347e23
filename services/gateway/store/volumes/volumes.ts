import { and, count, desc, eq, inArray, ne, not, or, sql } from 'drizzle-orm';
import { CodeBoxError, type Page, type VolumeQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import { isLiving } from '../box/box-list.ts';
import type { Database } from '../database.ts';
import { isServing } from '../gateways.ts';
import { lockTenant } from '../lock-tenant.ts';
import { isWithout } from '../not-null.ts';
import { boxes } from '../schema.ts';
import { volumes } from '../schema-volumes.ts';
import { activeTenant, notActive } from '../tenants/active-tenant.ts';
import { overQuota } from '../usage/over-quota.ts';

export type VolumeRow = typeof volumes.$inferSelect;

/** What volumes are found by: an id, or a name with the user whose volume it is, if any. */
export type VolumeKey = { id: string } | { user: string | null; name: string };

/** The SQLSTATE with which a trigger refuses a box with a volume that is not there. */
const withoutVolumeState = 'CBV01';

/** Whether PostgreSQL refused a box because one of its volumes is not there. */
export const isWithoutVolume = (error: unknown): boolean => {
  for (let one = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth++)
    if ('code' in one && one.code === withoutVolumeState) return true;
  return false;
};

export const noSuchVolume = (): CodeBoxError => new CodeBoxError('not_found', 'There is no such volume.');

/** Volumes of tenants. One that is `deleting` is gone for its tenant, whatever remains of it. */
export const createVolumeStore = (db: Database, gateway: string | null) => {
  const isFor = (tenantId: string, key: VolumeKey) => {
    const isNamed =
      'id' in key
        ? eq(volumes.id, key.id)
        : and(eq(volumes.name, key.name), sql`coalesce(${volumes.userId}, '') = ${key.user ?? ''}`);
    return and(eq(volumes.tenantId, tenantId), isNamed, inArray(volumes.state, ['creating', 'ready']));
  };
  const isMine = sql`${volumes.gatewayId} is not distinct from ${gateway}`;

  return {
    /**
     * Inserts a volume to be made, of which a tenant may have `most`, and only one that is `creating`. Returns undefined when there is one
     * of this name. Throws `quota_exceeded`, and `forbidden` for a tenant that is no longer active.
     */
    async begin(
      volume: Pick<VolumeRow, 'id' | 'tenantId' | 'userId' | 'name' | 'sizeMb' | 'site'>,
      most: number,
    ): Promise<VolumeRow | undefined> {
      return await db.transaction(async (tx) => {
        await lockTenant(tx, volume.tenantId);
        const [row] = await tx
          .insert(volumes)
          .values({ ...volume, tenantId: sql`${activeTenant(volume.tenantId)}`, gatewayId: gateway })
          .onConflictDoNothing()
          .returning()
          .catch((error: unknown) => {
            throw isWithout('tenant_id', error) ? notActive() : error;
          });
        if (!row) return undefined;
        const [all] = await tx
          .select({ n: count(), creating: sql<number>`count(*) filter (where ${volumes.state} = 'creating')::int` })
          .from(volumes)
          .where(and(eq(volumes.tenantId, volume.tenantId), ne(volumes.id, volume.id)));
        const { n: used, creating } = all ?? { n: 0, creating: 0 };
        if (used >= most) throw overQuota({ name: 'volumes', limit: most, used }, 60);
        if (creating > 0) throw overQuota({ name: 'volumesInCreation', limit: 1, used: creating }, 2);
        return row;
      });
    },

    /** `creating` → `ready`. Returns undefined when the volume was deleted meanwhile. */
    async markReady(id: string): Promise<VolumeRow | undefined> {
      const [row] = await db
        .update(volumes)
        .set({ state: 'ready', gatewayId: null })
        .where(and(eq(volumes.id, id), eq(volumes.state, 'creating'), isMine))
        .returning();
      return row;
    },

    /**
     * Gives up a volume that this gateway makes. Returns whether nothing of it may be left: not when it is `ready`, as after `markReady` whose
     * response was lost.
     */
    async giveUp(id: string): Promise<boolean> {
      await db
        .update(volumes)
        .set({ state: 'deleting' })
        .where(and(eq(volumes.id, id), eq(volumes.state, 'creating'), isMine));
      const [row] = await db.select({ state: volumes.state }).from(volumes).where(eq(volumes.id, id));
      return row === undefined || row.state === 'deleting';
    },

    /** Finds a volume of this tenant that is ready or will be. */
    async find(tenantId: string, key: VolumeKey): Promise<VolumeRow | undefined> {
      const [row] = await db.select().from(volumes).where(isFor(tenantId, key));
      return row;
    },

    /** Returns those of these volumes of a tenant that are ready. */
    async ready(tenantId: string, ids: readonly string[]): Promise<VolumeRow[]> {
      return await db
        .select()
        .from(volumes)
        .where(and(eq(volumes.tenantId, tenantId), inArray(volumes.id, [...ids]), eq(volumes.state, 'ready')));
    },

    async list(tenantId: string, { user, limit, cursor }: VolumeQuery): Promise<Page<VolumeRow>> {
      const rows = await db
        .select()
        .from(volumes)
        .where(
          and(
            eq(volumes.tenantId, tenantId),
            eq(volumes.state, 'ready'),
            user === undefined ? undefined : eq(volumes.userId, user),
            behind(cursor, volumes.createdAt, volumes.id),
          ),
        )
        .orderBy(desc(volumes.createdAt), desc(volumes.id))
        .limit(limit + 1);
      return toPage(rows, limit);
    },

    /**
     * `ready` → `deleting`, unless a living box has the volume. Returns the volume and, if it stays, that box; undefined when there is no
     * such volume. No box can get the volume between the check and the change.
     */
    async delete(tenantId: string, id: string): Promise<{ volume: VolumeRow; usedBy?: string } | undefined> {
      return await db.transaction(async (tx) => {
        const [volume] = await tx
          .select()
          .from(volumes)
          .where(and(eq(volumes.tenantId, tenantId), eq(volumes.id, id), eq(volumes.state, 'ready')))
          .for('update');
        if (!volume) return undefined;
        const isUsing = sql`${boxes.volumes} @> ${JSON.stringify([{ id: volume.id }])}::jsonb`;
        const [box] = await tx
          .select({ id: boxes.id })
          .from(boxes)
          .where(and(eq(boxes.tenantId, tenantId), isLiving, isUsing))
          .limit(1);
        if (box) return { volume, usedBy: box.id };
        await tx.update(volumes).set({ state: 'deleting' }).where(eq(volumes.id, volume.id));
        return { volume };
      });
    },

    /** Returns some volumes at a site of which nothing may be left: they were deleted, or the gateway that made them has died. */
    async abandoned(site: string, limit: number): Promise<string[]> {
      const isOrphan = and(eq(volumes.state, 'creating'), not(isServing(volumes.gatewayId)));
      const some = db
        .select({ id: volumes.id })
        .from(volumes)
        .where(and(eq(volumes.site, site), or(eq(volumes.state, 'deleting'), isOrphan)))
        // So that those that cannot be removed do not keep the others waiting.
        .orderBy(sql`random()`)
        .limit(limit)
        .for('update', { skipLocked: true });
      const rows = await db
        .update(volumes)
        .set({ state: 'deleting' })
        .where(inArray(volumes.id, some))
        .returning({ id: volumes.id });
      return rows.map(({ id }) => id);
    },

    /** Deletes the row of a volume of which nothing is left. */
    async forget(id: string): Promise<void> {
      await db.delete(volumes).where(and(eq(volumes.id, id), eq(volumes.state, 'deleting')));
    },

    /** Returns those of these ids that have no row at the site. */
    async unknown(site: string, ids: readonly string[]): Promise<string[]> {
      if (ids.length === 0) return [];
      const rows = await db
        .select({ id: volumes.id })
        .from(volumes)
        .where(and(eq(volumes.site, site), inArray(volumes.id, [...ids])));
      const known = new Set(rows.map(({ id }) => id));
      return ids.filter((id) => !known.has(id));
    },
  };
};

export type VolumeStore = ReturnType<typeof createVolumeStore>;
