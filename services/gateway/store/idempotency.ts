import { and, eq, getTableColumns, lt, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { isServing } from './gateways.ts';
import { idempotencyKeys } from './schema.ts';

export interface StoredAnswer {
  requestHash: string;
  /** Null while the first request is still in progress. */
  status: number | null;
  body: string | null;
  contentType: string | null;
  location: string | null;
  /** Whether what was asked for may have begun. */
  mayHaveStarted: boolean;
  /** Whether the gateway that has the first request in progress has died. */
  isAbandoned: boolean;
}

const claimAttempts = 20;
const isAbandoned = sql<boolean>`(${idempotencyKeys.status} is null and not ${isServing(idempotencyKeys.gatewayId)})`;

/** What was answered to requests that carried an Idempotency-Key, per tenant. */
export const createIdempotencyStore = (db: Database, gateway: string | null) => {
  const where = (tenantId: string, key: string) =>
    and(eq(idempotencyKeys.tenantId, tenantId), eq(idempotencyKeys.key, key));
  /** Another gateway may have taken over from this one, while it was cut off and counted as dead. */
  const whereMine = (tenantId: string, key: string) =>
    and(where(tenantId, key), sql`${idempotencyKeys.gatewayId} is not distinct from ${gateway}`);

  return {
    /** Takes the key for a new request, or answers what is known of the one that took it. Throws `conflict` when it keeps changing hands. */
    async claim(tenantId: string, key: string, requestHash: string): Promise<StoredAnswer | undefined> {
      // The one that holds the key may give it back between the two looks: then it is free again.
      for (let attempt = 0; attempt < claimAttempts; attempt++) {
        const mine = await db
          .insert(idempotencyKeys)
          .values({ tenantId, key, requestHash, gatewayId: gateway })
          .onConflictDoNothing()
          .returning({ key: idempotencyKeys.key });
        if (mine.length > 0) return undefined;
        const [row] = await db
          .select({ ...getTableColumns(idempotencyKeys), isAbandoned })
          .from(idempotencyKeys)
          .where(where(tenantId, key));
        if (row) return row;
      }
      throw new CodeBoxError('conflict', 'This Idempotency-Key is in use.', { retryAfterSeconds: 1 });
    },

    /** Takes over a key whose gateway died with the request in progress; false when somebody else was faster. */
    async takeOver(tenantId: string, key: string): Promise<boolean> {
      const taken = await db
        .update(idempotencyKeys)
        .set({ gatewayId: gateway, location: null, mayHaveStarted: false })
        .where(and(where(tenantId, key), isAbandoned))
        .returning({ key: idempotencyKeys.key });
      return taken.length > 0;
    },

    /**
     * What was asked for may begin now, and where it can be read, as soon as that is known. Throws `conflict` when another gateway
     * has taken over: then it must not begin here.
     */
    async advance(tenantId: string, key: string, location: string | undefined): Promise<void> {
      const advanced = await db
        .update(idempotencyKeys)
        .set({ mayHaveStarted: true, ...(location !== undefined && { location }) })
        .where(whereMine(tenantId, key))
        .returning({ key: idempotencyKeys.key });
      if (advanced.length > 0) return;
      throw new CodeBoxError('conflict', 'This request is being done by another gateway.', { retryAfterSeconds: 1 });
    },

    async complete(
      tenantId: string,
      key: string,
      answer: { status: number; body: string | null; contentType: string | null },
    ) {
      await db.update(idempotencyKeys).set(answer).where(whereMine(tenantId, key));
    },

    /** Gives the key back: the request did nothing. */
    async release(tenantId: string, key: string): Promise<void> {
      await db.delete(idempotencyKeys).where(whereMine(tenantId, key));
    },

    /** Forgets up to `limit` that are older than this; how many those were. */
    purge: (afterSeconds: number, limit: number): Promise<number> => {
      const isOld = lt(idempotencyKeys.createdAt, sql`now() - make_interval(secs => ${afterSeconds})`);
      return deleteSome(db, idempotencyKeys, isOld, limit);
    },
  };
};

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;
