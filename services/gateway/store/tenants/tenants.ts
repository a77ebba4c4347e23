import { and, asc, desc, eq, getTableColumns, isNull, ne, sql } from 'drizzle-orm';
import { CodeBoxError, type Quotas, quotaNames, type TenantQuery, type UpdateTenant } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { apiKeys, boxes, quotas, tenants } from '../schema.ts';
import { templates } from '../schema-templates.ts';
import { volumes } from '../schema-volumes.ts';
import { webhooks } from '../schema-webhooks.ts';
import { type ChangedBy, recordChange } from './audit.ts';

/** A tenant with its quotas; a null quota is no limit. */
export type TenantRow = typeof tenants.$inferSelect & { quotas: Quotas };

const noQuotas = Object.fromEntries(quotaNames.map((name) => [name, null])) as unknown as Quotas;

const toRow = (row: { tenant: typeof tenants.$inferSelect; quotas: (Quotas & { tenantId: string }) | null }) => {
  const { tenantId: _, ...limits } = row.quotas ?? { tenantId: '', ...noQuotas };
  return { ...row.tenant, quotas: limits };
};

/** Tenants, as the operator manages them. Every change is in the audit log. */
export const createTenantStore = (db: Database) => {
  const select = () =>
    db
      .select({ tenant: getTableColumns(tenants), quotas: getTableColumns(quotas) })
      .from(tenants)
      .leftJoin(quotas, eq(quotas.tenantId, tenants.id));

  const find = async (id: string): Promise<TenantRow | undefined> => {
    const [row] = await select().where(eq(tenants.id, id));
    return row && toRow(row);
  };

  return {
    find,

    async list(query: TenantQuery) {
      const rows = await select()
        .where(
          and(
            query.state === undefined ? ne(tenants.state, 'deleted') : eq(tenants.state, query.state),
            behind(query.cursor, tenants.createdAt, tenants.id),
          ),
        )
        .orderBy(desc(tenants.createdAt), desc(tenants.id))
        .limit(query.limit + 1);
      return toPage(rows.map(toRow), query.limit);
    },

    async create(tenant: { id: string; name: string; quotas: Partial<Quotas> }, by: ChangedBy): Promise<void> {
      const { id, name, quotas: limits } = tenant;
      await db.transaction(async (tx) => {
        await tx.insert(tenants).values({ id, name });
        await tx.insert(quotas).values({ tenantId: id, ...limits });
        await recordChange(tx, by, {
          action: 'tenant.create',
          tenantId: id,
          target: id,
          details: { name, quotas: limits },
        });
      });
    },

    /** Changes the given fields. Returns undefined when there is no such tenant; throws `conflict` for a deleted one. */
    async update(
      id: string,
      { quotas: limits, ...fields }: UpdateTenant,
      by: ChangedBy,
    ): Promise<TenantRow | undefined> {
      const isFound = await db.transaction(async (tx) => {
        const [known] = await tx.select().from(tenants).where(eq(tenants.id, id)).for('update');
        if (known?.state === 'deleted') throw new CodeBoxError('conflict', 'The tenant is deleted.');
        if (!known) return false;
        const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
        if (Object.keys(given).length > 0) await tx.update(tenants).set(given).where(eq(tenants.id, id));
        if (limits && Object.keys(limits).length > 0)
          await tx
            .insert(quotas)
            .values({ tenantId: id, ...(limits as Partial<Quotas>) })
            .onConflictDoUpdate({ target: quotas.tenantId, set: limits as Partial<Quotas> });
        await recordChange(tx, by, {
          action: 'tenant.update',
          tenantId: id,
          target: id,
          details: { ...given, ...(limits && { quotas: limits }) },
        });
        return true;
      });
      return isFound ? await find(id) : undefined;
    },

    /**
     * Deletes a tenant permanently: its keys are revoked, its templates and webhooks deleted, and the sweeps end its boxes and
     * remove its volumes. Its usage stays on record.
     * Returns whether there is such a tenant; doing it again changes nothing.
     */
    async delete(id: string, by: ChangedBy): Promise<boolean> {
      return await db.transaction(async (tx) => {
        const [known] = await tx.select().from(tenants).where(eq(tenants.id, id)).for('update');
        if (!known || known.state === 'deleted') return known !== undefined;
        await tx.update(tenants).set({ state: 'deleted' }).where(eq(tenants.id, id));
        await tx
          .update(apiKeys)
          .set({ revokedAt: sql`now()` })
          .where(and(eq(apiKeys.tenantId, id), isNull(apiKeys.revokedAt)));
        const living = and(eq(boxes.tenantId, id), isNull(boxes.endedAt));
        // In the order in which gateways that record use of boxes lock them.
        await tx.select({ id: boxes.id }).from(boxes).where(living).orderBy(asc(boxes.id)).for('no key update');
        await tx
          .update(boxes)
          .set({ expiresAt: sql`now()`, version: sql`${boxes.version} + 1` })
          .where(living);
        await tx.delete(templates).where(eq(templates.tenantId, id));
        await tx.delete(webhooks).where(eq(webhooks.tenantId, id));
        await tx.update(volumes).set({ state: 'deleting' }).where(eq(volumes.tenantId, id));
        await recordChange(tx, by, { action: 'tenant.delete', tenantId: id, target: id });
        return true;
      });
    },
  };
};

export type TenantStore = ReturnType<typeof createTenantStore>;
