import { and, desc, eq, getTableColumns, sql } from 'drizzle-orm';
import { CodeBoxError, type KeyQuery, type KeyScope } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { apiKeys, tenants } from '../schema.ts';
import { type ChangedBy, recordChange } from './audit.ts';

export type ApiKeyRow = Omit<typeof apiKeys.$inferSelect, 'hash'> & { isExpired: boolean };

export interface NewApiKeyRow {
  id: string;
  hash: string;
  tenantId: string;
  name: string;
  scopes: KeyScope[] | null;
  /** Null for a key that does not expire. */
  lifeSeconds: number | null;
}

const { hash: _, ...withoutHash } = getTableColumns(apiKeys);
const columns = { ...withoutHash, isExpired: sql<boolean>`coalesce(${apiKeys.expiresAt} <= now(), false)` };
const inSeconds = (seconds: number) => sql`now() + make_interval(secs => ${seconds})`;

/** API keys as the operator manages them, without the keys or their hashes. Every change is in the audit log. */
export const createApiKeyStore = (db: Database) => {
  const find = async (id: string): Promise<ApiKeyRow | undefined> => {
    const [row] = await db.select(columns).from(apiKeys).where(eq(apiKeys.id, id));
    return row;
  };

  const found = async (id: string): Promise<ApiKeyRow> => {
    const row = await find(id);
    if (!row) throw new Error('a key that was just written is not there');
    return row;
  };

  return {
    find,

    async list(query: KeyQuery) {
      const rows = await db
        .select(columns)
        .from(apiKeys)
        .where(
          and(
            query.tenant === undefined ? undefined : eq(apiKeys.tenantId, query.tenant),
            behind(query.cursor, apiKeys.createdAt, apiKeys.id),
          ),
        )
        .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
        .limit(query.limit + 1);
      return toPage(rows, query.limit);
    },

    /** Adds a key to a tenant; returns undefined when there is no such tenant, or it is deleted. */
    async create({ lifeSeconds, ...key }: NewApiKeyRow, by: ChangedBy): Promise<ApiKeyRow | undefined> {
      const { id, tenantId, name, scopes } = key;
      const isMade = await db.transaction(async (tx) => {
        const [tenant] = await tx
          .select({ state: tenants.state })
          .from(tenants)
          .where(eq(tenants.id, tenantId))
          .for('share');
        if (!tenant || tenant.state === 'deleted') return false;
        await tx.insert(apiKeys).values({ ...key, expiresAt: lifeSeconds === null ? null : inSeconds(lifeSeconds) });
        const details = { name, ...(scopes && { scopes }), ...(lifeSeconds !== null && { lifeSeconds }) };
        await recordChange(tx, by, { action: 'key.create', tenantId, target: id, details });
        return true;
      });
      return isMade ? await found(id) : undefined;
    },

    /**
     * Adds a key that replaces another one, with its tenant, name and scopes; the old key expires after the overlap at the latest. Without
     * `lifeSeconds` the new key has the lifetime of the old one. Returns undefined when there is no such key; throws `conflict` when it has
     * been revoked or has expired.
     */
    async rotate(
      oldId: string,
      fresh: { id: string; hash: string; lifeSeconds: number | undefined; overlapSeconds: number },
      by: ChangedBy,
    ): Promise<ApiKeyRow | undefined> {
      const { id, hash, lifeSeconds, overlapSeconds } = fresh;
      const isMade = await db.transaction(async (tx) => {
        const [old] = await tx.select(columns).from(apiKeys).where(eq(apiKeys.id, oldId)).for('update');
        if (!old) return false;
        if (old.revokedAt || old.isExpired)
          throw new CodeBoxError('conflict', 'The key was revoked or has expired; create a new key instead.');
        const { tenantId, name, scopes } = old;
        const life = lifeSeconds ?? (old.expiresAt && (old.expiresAt.getTime() - old.createdAt.getTime()) / 1000);
        const expiresAt = life === null ? null : inSeconds(life);
        await tx.insert(apiKeys).values({ id, hash, tenantId, name, scopes, expiresAt });
        const end = inSeconds(overlapSeconds);
        await tx
          .update(apiKeys)
          .set(
            overlapSeconds === 0 ? { revokedAt: sql`now()` } : { expiresAt: sql`least(${apiKeys.expiresAt}, ${end})` },
          )
          .where(eq(apiKeys.id, oldId));
        const details = { newKey: id, overlapSeconds };
        await recordChange(tx, by, { action: 'key.rotate', tenantId, target: oldId, details });
        return true;
      });
      return isMade ? await found(id) : undefined;
    },

    /** Revokes a key now. Returns whether there is such a key; doing it again changes nothing. */
    async revoke(id: string, by: ChangedBy): Promise<boolean> {
      return await db.transaction(async (tx) => {
        const [known] = await tx.select(columns).from(apiKeys).where(eq(apiKeys.id, id)).for('update');
        if (!known || known.revokedAt) return known !== undefined;
        await tx.update(apiKeys).set({ revokedAt: sql`now()` }).where(eq(apiKeys.id, id));
        await recordChange(tx, by, { action: 'key.revoke', tenantId: known.tenantId, target: id });
        return true;
      });
    },
  };
};

export type ApiKeyStore = ReturnType<typeof createApiKeyStore>;
