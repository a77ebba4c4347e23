import { and, eq, lt, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import type { Database } from './database.ts';
import { idempotencyKeys } from './schema.ts';

export interface StoredAnswer {
  requestHash: string;
  /** Null while the first request is still in progress. */
  status: number | null;
  body: string | null;
  contentType: string | null;
  location: string | null;
}

const claimAttempts = 20;

/** What was answered to requests that carried an Idempotency-Key, per tenant. */
export const createIdempotencyStore = (db: Database) => {
  const where = (tenantId: string, key: string) =>
    and(eq(idempotencyKeys.tenantId, tenantId), eq(idempotencyKeys.key, key));

  return {
    /** Takes the key for a new request, or answers what is known of the one that took it. Throws `conflict` when it keeps changing hands. */
    async claim(tenantId: string, key: string, requestHash: string): Promise<StoredAnswer | undefined> {
      // The one that holds the key may give it back between the two looks: then it is free again.
      for (let attempt = 0; attempt < claimAttempts; attempt++) {
        const mine = await db
          .insert(idempotencyKeys)
          .values({ tenantId, key, requestHash })
          .onConflictDoNothing()
          .returning({ key: idempotencyKeys.key });
        if (mine.length > 0) return undefined;
        const [row] = await db.select().from(idempotencyKeys).where(where(tenantId, key));
        if (row) return row;
      }
      throw new CodeBoxError('conflict', 'This Idempotency-Key is in use.', { retryAfterSeconds: 1 });
    },

    /** Where what was started can be read, as soon as that is known. */
    async setLocation(tenantId: string, key: string, location: string): Promise<void> {
      await db.update(idempotencyKeys).set({ location }).where(where(tenantId, key));
    },

    async complete(
      tenantId: string,
      key: string,
      answer: { status: number; body: string | null; contentType: string | null },
    ) {
      await db.update(idempotencyKeys).set(answer).where(where(tenantId, key));
    },

    /** Gives the key back: the request did nothing. */
    async release(tenantId: string, key: string): Promise<void> {
      await db.delete(idempotencyKeys).where(where(tenantId, key));
    },

    async purge(afterSeconds: number): Promise<void> {
      await db
        .delete(idempotencyKeys)
        .where(lt(idempotencyKeys.createdAt, sql`now() - make_interval(secs => ${afterSeconds})`));
    },
  };
};

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;
