import { and, desc, eq, getTableColumns, gt, isNull, ne, or, sql } from 'drizzle-orm';
import type { KeyScope, Quotas } from '#contract';
import type { Database } from '../database.ts';
import { apiKeys, boxes, deployments, quotas, tenants } from '../schema.ts';
import { recordChange } from './audit.ts';

/** The caller of a request: a tenant, by one of its keys. */
export interface Caller {
  tenantId: string;
  keyId: string;
}

/** A valid key with its rights. */
export interface ValidKey {
  hash: string;
  tenantId: string;
  /** Null for all scopes. */
  scopes: KeyScope[] | null;
  /** Whether its tenant is suspended: then the key is valid, but no request with it is admitted. */
  isSuspended: boolean;
  /** The quotas of its tenant; null without any. */
  quotas: Quotas | null;
}

const maxCallers = 2000;
const isValid = and(isNull(apiKeys.revokedAt), or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, sql`now()`)));

/** Tenants, their API keys, and the name of this deployment. */
export const createKeyStore = (db: Database) => {
  const selectKey = db
    .select({
      hash: apiKeys.hash,
      tenantId: apiKeys.tenantId,
      scopes: apiKeys.scopes,
      isSuspended: sql<boolean>`${tenants.state} = 'suspended'`,
      // All columns, so that the primary key comes first: by its null drizzle recognises a missing row.
      quotas: getTableColumns(quotas),
    })
    .from(apiKeys)
    .innerJoin(tenants, eq(tenants.id, apiKeys.tenantId))
    .leftJoin(quotas, eq(quotas.tenantId, apiKeys.tenantId))
    .where(and(eq(apiKeys.id, sql.placeholder('id')), ne(tenants.state, 'deleted'), isValid))
    .prepare('api_key');

  return {
    async find(id: string): Promise<ValidKey | undefined> {
      const [row] = await selectKey.execute({ id });
      return row;
    },

    /**
     * Returns living boxes, or only `box`, each with the valid keys of its tenant: at most `maxCallers`, the boxes that were used last and
     * the newest keys first.
     */
    callersOfBoxes: async (
      box: string | undefined,
    ): Promise<(Caller & { box: string; metadata: Record<string, string> })[]> =>
      await db
        .select({ box: boxes.id, metadata: boxes.metadata, tenantId: apiKeys.tenantId, keyId: apiKeys.id })
        .from(boxes)
        .innerJoin(apiKeys, eq(apiKeys.tenantId, boxes.tenantId))
        .where(and(isNull(boxes.endedAt), isValid, box === undefined ? undefined : eq(boxes.id, box)))
        .orderBy(desc(boxes.lastActiveAt), desc(apiKeys.createdAt))
        .limit(maxCallers),

    async addTenant(id: string, name: string): Promise<void> {
      await db.insert(tenants).values({ id, name });
    },

    async hasTenants(): Promise<boolean> {
      return (await db.select({ id: tenants.id }).from(tenants).limit(1)).length > 0;
    },

    /**
     * Adds the first tenant with its key, in one transaction, unless there is a tenant. Only one of several concurrent gateways does so;
     * `prepare` runs just before.
     */
    async addFirstTenant(
      tenant: { id: string; name: string },
      key: { id: string; hash: string; name: string },
      prepare: () => Promise<void>,
    ): Promise<void> {
      await db.transaction(async (tx) => {
        await tx.execute(sql`lock table ${tenants} in exclusive mode`);
        if ((await tx.select({ id: tenants.id }).from(tenants).limit(1)).length > 0) return;
        await prepare();
        await tx.insert(tenants).values(tenant);
        await tx.insert(apiKeys).values({ ...key, tenantId: tenant.id });
        const by = { actor: 'gateway', requestId: null } as const;
        const made = { tenantId: tenant.id, details: { name: tenant.name } };
        await recordChange(tx, by, { action: 'tenant.create', target: tenant.id, ...made });
        await recordChange(tx, by, { action: 'key.create', target: key.id, ...made, details: { name: key.name } });
      });
    },

    async add(key: { id: string; tenantId: string; hash: string; name: string; expiresAt?: Date }): Promise<void> {
      await db.insert(apiKeys).values(key);
    },

    async revoke(id: string): Promise<void> {
      await db.update(apiKeys).set({ revokedAt: sql`now()` }).where(eq(apiKeys.id, id));
    },

    /** Returns the name and the secret of this deployment; a new deployment is named `proposed`. */
    async deployment(proposed: string): Promise<{ id: string; secret: string }> {
      return await db.transaction(async (tx) => {
        await tx.execute(sql`lock table ${deployments} in exclusive mode`);
        const [row] = await tx.select().from(deployments).limit(1);
        const [found = row] = row ? [] : await tx.insert(deployments).values({ id: proposed }).returning();
        if (!found) throw new Error('the deployment could not be named');
        return found;
      });
    },

    /** Resolves when the database responds. */
    async ping(): Promise<void> {
      await db.execute(sql`select 1`);
    },
  };
};

export type KeyStore = ReturnType<typeof createKeyStore>;
