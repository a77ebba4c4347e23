import { and, eq, getTableColumns, isNotNull, isNull, lt, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { CodeBoxError } from '#contract';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { isServing } from './gateways.ts';
import { idempotencyKeys } from './schema.ts';

/** A key that a request has taken; `id` tells it from those that had the key before, or will have it. */
export interface KeyClaim {
  tenantId: string;
  key: string;
  id: string;
}

export interface Answer {
  status: number;
  /** Null when it is not kept. */
  body: string | null;
  contentType: string | null;
}

export interface StoredAnswer {
  requestHash: string;
  /** Null while the first request is still in progress. */
  status: number | null;
  body: string | null;
  contentType: string | null;
  location: string | null;
  /** Whether what was asked for may have begun. */
  mayHaveStarted: boolean;
  /** Which claim has, or had, the first request in progress. */
  claimId: string | null;
  /** Whether it is one of this gateway. */
  isOwn: boolean;
  /** Whether the gateway that has the first request in progress has died. */
  isAbandoned: boolean;
}

const claimAttempts = 20;
const isAbandoned = sql<boolean>`(${idempotencyKeys.status} is null and not ${isServing(idempotencyKeys.gatewayId)})`;
const isSame = (column: PgColumn, value: unknown): SQL => sql`${column} is not distinct from ${value}`;

/** What was answered to requests that carried an Idempotency-Key, per tenant. */
export const createIdempotencyStore = (db: Database, gateway: string | null) => {
  const where = (tenantId: string, key: string) =>
    and(eq(idempotencyKeys.tenantId, tenantId), eq(idempotencyKeys.key, key));
  /**
   * Another gateway may have taken over from this one, while it was cut off and counted as dead; and a statement that a database
   * which stood still does late must not meet a later claim.
   */
  const whereClaimed = ({ tenantId, key, id }: KeyClaim) => and(where(tenantId, key), eq(idempotencyKeys.claimId, id));

  const find = async (tenantId: string, key: string): Promise<StoredAnswer | undefined> => {
    const [row] = await db
      .select({ ...getTableColumns(idempotencyKeys), isAbandoned })
      .from(idempotencyKeys)
      .where(where(tenantId, key));
    return row && { ...row, isOwn: row.gatewayId === gateway };
  };

  return {
    /** What is known of a key. */
    find,

    /** Takes the key for a new request, or answers what is known of the one that took it. Throws `conflict` when it keeps changing hands. */
    async claim({ tenantId, key, id }: KeyClaim, requestHash: string): Promise<StoredAnswer | undefined> {
      // The one that holds the key may give it back between the two looks: then it is free again.
      for (let attempt = 0; attempt < claimAttempts; attempt++) {
        const mine = await db
          .insert(idempotencyKeys)
          .values({ tenantId, key, requestHash, gatewayId: gateway, claimId: id })
          .onConflictDoNothing()
          .returning({ key: idempotencyKeys.key });
        if (mine.length > 0) return undefined;
        const known = await find(tenantId, key);
        if (known) return known;
      }
      throw new CodeBoxError('conflict', 'This Idempotency-Key is in use.', {
        reason: 'key_in_use',
        retryAfterSeconds: 1,
      });
    },

    /**
     * Takes over a key whose request was abandoned, by its gateway's death or by this gateway; false when it is not any more what
     * `known` says.
     */
    async takeOver({ tenantId, key, id }: KeyClaim, known: StoredAnswer): Promise<boolean> {
      const taken = await db
        .update(idempotencyKeys)
        .set({ gatewayId: gateway, claimId: id, location: null, mayHaveStarted: false, createdAt: sql`now()` })
        .where(
          and(
            where(tenantId, key),
            isNull(idempotencyKeys.status),
            known.isOwn ? isSame(idempotencyKeys.gatewayId, gateway) : isAbandoned,
            isSame(idempotencyKeys.claimId, known.claimId),
            eq(idempotencyKeys.mayHaveStarted, known.mayHaveStarted),
            isSame(idempotencyKeys.location, known.location),
          ),
        )
        .returning({ key: idempotencyKeys.key });
      return taken.length > 0;
    },

    /**
     * What was asked for may begin now, and where it can be read, as soon as that is known. Throws `conflict` when another gateway
     * has taken over: then it must not begin here.
     */
    async advance(claim: KeyClaim, location: string | undefined): Promise<void> {
      const advanced = await db
        .update(idempotencyKeys)
        .set({ mayHaveStarted: true, ...(location !== undefined && { location }) })
        .where(whereClaimed(claim))
        .returning({ key: idempotencyKeys.key });
      if (advanced.length > 0) return;
      throw new CodeBoxError('conflict', 'This request is being done by another gateway.', {
        reason: 'key_in_use',
        retryAfterSeconds: 1,
      });
    },

    async complete(claim: KeyClaim, answer: Answer): Promise<void> {
      await db.update(idempotencyKeys).set(answer).where(whereClaimed(claim));
    },

    /** Gives the key back: the request did nothing. */
    async release(claim: KeyClaim): Promise<void> {
      await db.delete(idempotencyKeys).where(whereClaimed(claim));
    },

    /** How many keys there are of a tenant; `most` when there are more. */
    async count(tenantId: string, most: number): Promise<number> {
      const counted = db
        .select({ one: sql`1` })
        .from(idempotencyKeys)
        .where(eq(idempotencyKeys.tenantId, tenantId))
        .limit(most)
        .as('counted');
      return await db.$count(counted);
    },

    /** Forgets the oldest answers of a tenant, so that those which stay have at most `maxBytes`. Their keys stay. */
    async forgetAnswers(tenantId: string, maxBytes: number): Promise<void> {
      const newest = db
        .select({
          key: idempotencyKeys.key,
          upTo: sql<number>`sum(octet_length(${idempotencyKeys.body})) over (order by ${idempotencyKeys.createdAt} desc, ${idempotencyKeys.key})`.as(
            'up_to',
          ),
        })
        .from(idempotencyKeys)
        .where(and(eq(idempotencyKeys.tenantId, tenantId), isNotNull(idempotencyKeys.body)))
        .as('newest');
      const old = db.select({ key: newest.key }).from(newest).where(sql`${newest.upTo} > ${maxBytes}`);
      await db
        .update(idempotencyKeys)
        .set({ body: null })
        .where(and(eq(idempotencyKeys.tenantId, tenantId), sql`${idempotencyKeys.key} in ${old}`));
    },

    /** Forgets up to `limit` that are older than this; how many those were. */
    purge: (afterSeconds: number, limit: number): Promise<number> => {
      const isOld = lt(idempotencyKeys.createdAt, sql`now() - make_interval(secs => ${afterSeconds})`);
      return deleteSome(db, idempotencyKeys, isOld, limit);
    },
  };
};

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;
