import { and, eq, gt, isNull, or, sql } from 'drizzle-orm';
import type { Database } from './database.ts';
import { apiKeys, deployments, tenants } from './schema.ts';

/** Who asks: a tenant, by one of its keys. */
export interface Caller {
  tenantId: string;
  keyId: string;
}

/** Tenants, their API keys, and the name of this deployment. */
export const createKeyStore = (db: Database) => {
  const selectKey = db
    .select({ hash: apiKeys.hash, tenantId: apiKeys.tenantId })
    .from(apiKeys)
    .where(
      and(
        eq(apiKeys.id, sql.placeholder('id')),
        isNull(apiKeys.revokedAt),
        or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, sql`now()`)),
      ),
    )
    .prepare('api_key');

  return {
    /** The hash and the tenant of a key that is valid now. */
    async find(id: string): Promise<{ hash: string; tenantId: string } | undefined> {
      const [row] = await selectKey.execute({ id });
      return row;
    },

    async addTenant(id: string, name: string): Promise<void> {
      await db.insert(tenants).values({ id, name });
    },

    async hasTenants(): Promise<boolean> {
      return (await db.select({ id: tenants.id }).from(tenants).limit(1)).length > 0;
    },

    /** A tenant with its first key: both or neither. */
    async addTenantWithKey(
      tenant: { id: string; name: string },
      key: { id: string; hash: string; name: string },
    ): Promise<void> {
      await db.transaction(async (tx) => {
        await tx.insert(tenants).values(tenant);
        await tx.insert(apiKeys).values({ ...key, tenantId: tenant.id });
      });
    },

    async add(key: { id: string; tenantId: string; hash: string; name: string; expiresAt?: Date }): Promise<void> {
      await db.insert(apiKeys).values(key);
    },

    async revoke(id: string): Promise<void> {
      await db.update(apiKeys).set({ revokedAt: sql`now()` }).where(eq(apiKeys.id, id));
    },

    /** The name of this deployment: `proposed` when it has none yet. */
    async deployment(proposed: string): Promise<string> {
      return await db.transaction(async (tx) => {
        await tx.execute(sql`lock table ${deployments} in exclusive mode`);
        const [row] = await tx.select().from(deployments).limit(1);
        if (row) return row.id;
        await tx.insert(deployments).values({ id: proposed });
        return proposed;
      });
    },

    /** Answers when the database does. */
    async ping(): Promise<void> {
      await db.execute(sql`select 1`);
    },
  };
};

export type KeyStore = ReturnType<typeof createKeyStore>;
