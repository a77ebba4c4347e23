import { and, eq, getTableColumns, isNotNull, lt, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { CodeBoxError } from '#contract';
import type { Database } from './database.ts';
import { deleteSome } from './delete-some.ts';
import { isServing } from './gateways.ts';
import type { Reference } from './reference.ts';
import { idempotencyKeys } from './schema.ts';

/** A key claimed by a request; `id` distinguishes this claim from earlier and later claims of the same key. */
export interface KeyClaim {
  tenantId: string;
  key: string;
  id: string;
}

export interface StoredResponse {
  status: number;
  /** Null when the body is not stored. */
  body: string | null;
  contentType: string | null;
}

/** The row of a key: its claim, what the request may have started, and the response once there is one. */
export interface KeyRecord {
  requestHash: string;
  /** Null while the first request is still in progress. */
  status: number | null;
  /** The length of the body of the response; null when it is not stored. */
  bodyBytes: number | null;
  contentType: string | null;
  /** The object that the request created or started; null until it may exist. */
  reference: Reference | null;
  /** Whether the requested work may have started. */
  mayHaveStarted: boolean;
  /** The claim of the first request. */
  claimId: string | null;
  /** Whether that claim is of this gateway. */
  isOwn: boolean;
  /** Whether the first request is in progress in a gateway that has died. */
  isAbandoned: boolean;
}

const claimAttempts = 20;
const isAbandoned = sql<boolean>`(${idempotencyKeys.status} is null and not ${isServing(idempotencyKeys.gatewayId)})`;
/** A row that is older than the column has only the path. */
const reference = sql<Reference | null>`coalesce(${idempotencyKeys.reference}, idempotency_reference(${idempotencyKeys.location}))`;
const { body: bodyColumn, ...columns } = getTableColumns(idempotencyKeys);
const bodyBytes = sql<number | null>`octet_length(${bodyColumn})`;
const isSame = (column: PgColumn, value: unknown): SQL => sql`${column} is not distinct from ${value}`;

/** The Idempotency-Keys of each tenant, with the responses to their requests. */
export const createIdempotencyStore = (db: Database, gateway: string | null) => {
  const where = (tenantId: string, key: string) =>
    and(eq(idempotencyKeys.tenantId, tenantId), eq(idempotencyKeys.key, key));
  /**
   * Matches this claim only: another gateway may have taken the key over while this one was cut off and presumed dead, and a statement
   * that a stalled database executes late must not change a later claim.
   */
  const whereClaimed = ({ tenantId, key, id }: KeyClaim) => and(where(tenantId, key), eq(idempotencyKeys.claimId, id));

  const find = async (tenantId: string, key: string): Promise<KeyRecord | undefined> => {
    const [row] = await db
      .select({ ...columns, bodyBytes, reference, isAbandoned })
      .from(idempotencyKeys)
      .where(where(tenantId, key));
    return row && { ...row, isOwn: row.gatewayId === gateway };
  };

  return {
    find,

    /** Returns the stored body of a response; null when it is not stored. */
    async bodyOf(tenantId: string, key: string): Promise<string | null> {
      const [row] = await db.select({ body: bodyColumn }).from(idempotencyKeys).where(where(tenantId, key));
      return row?.body ?? null;
    },

    /**
     * Claims the key for a new request; returns the record of the earlier request when there is one. Throws `conflict` when the key
     * keeps changing hands.
     */
    async claim({ tenantId, key, id }: KeyClaim, requestHash: string): Promise<KeyRecord | undefined> {
      // The key may be released between the insert and the read: then it is free again.
      for (let attempt = 0; attempt < claimAttempts; attempt++) {
        const inserted = await db
          .insert(idempotencyKeys)
          .values({ tenantId, key, requestHash, gatewayId: gateway, claimId: id })
          .onConflictDoNothing()
          .returning({ key: idempotencyKeys.key });
        if (inserted.length > 0) return undefined;
        const known = await find(tenantId, key);
        if (known) return known;
      }
      throw new CodeBoxError('conflict', 'This Idempotency-Key is in use; try again.', {
        reason: 'key_in_use',
        retryAfterSeconds: 1,
      });
    },

    /**
     * Takes over a key whose request has failed, or was abandoned by this gateway or by one that died. Returns false when the row no
     * longer matches `known`.
     */
    async takeOver({ tenantId, key, id }: KeyClaim, known: KeyRecord): Promise<boolean> {
      const isLeft = known.isOwn ? isSame(idempotencyKeys.gatewayId, gateway) : isAbandoned;
      const taken = await db
        .update(idempotencyKeys)
        .set({
          gatewayId: gateway,
          claimId: id,
          status: null,
          reference: null,
          location: null,
          mayHaveStarted: false,
          createdAt: sql`now()`,
        })
        .where(
          and(
            where(tenantId, key),
            isSame(idempotencyKeys.status, known.status),
            known.status === null ? isLeft : undefined,
            isSame(idempotencyKeys.claimId, known.claimId),
            eq(idempotencyKeys.mayHaveStarted, known.mayHaveStarted),
          ),
        )
        .returning({ key: idempotencyKeys.key });
      return taken.length > 0;
    },

    /**
     * Records that the requested work may start now, and what it creates or starts, if anything can be read again. Throws `conflict` when another
     * gateway has taken the key over: then the work must not start here.
     */
    async advance(claim: KeyClaim, reference: Reference | undefined): Promise<void> {
      const advanced = await db
        .update(idempotencyKeys)
        .set({ mayHaveStarted: true, ...(reference !== undefined && { reference }) })
        .where(whereClaimed(claim))
        .returning({ key: idempotencyKeys.key });
      if (advanced.length > 0) return;
      throw new CodeBoxError('conflict', 'Another gateway has taken this request over; try again.', {
        reason: 'key_in_use',
        retryAfterSeconds: 1,
      });
    },

    async complete(claim: KeyClaim, response: StoredResponse): Promise<void> {
      await db.update(idempotencyKeys).set(response).where(whereClaimed(claim));
    },

    /** Frees the key: the request did nothing. */
    async release(claim: KeyClaim): Promise<void> {
      await db.delete(idempotencyKeys).where(whereClaimed(claim));
    },

    /** Returns the number of keys of a tenant, but at most `most`. */
    async count(tenantId: string, most: number): Promise<number> {
      const counted = db
        .select({ one: sql`1` })
        .from(idempotencyKeys)
        .where(eq(idempotencyKeys.tenantId, tenantId))
        .limit(most)
        .as('counted');
      return await db.$count(counted);
    },

    /** Deletes the oldest response bodies of a tenant until the rest take at most `maxBytes`. The keys stay. */
    async dropOldBodies(tenantId: string, maxBytes: number): Promise<void> {
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

    /** Deletes up to `limit` keys that are older than this; returns their number. */
    purge: (afterSeconds: number, limit: number): Promise<number> => {
      const isOld = lt(idempotencyKeys.createdAt, sql`now() - make_interval(secs => ${afterSeconds})`);
      return deleteSome(db, idempotencyKeys, isOld, limit);
    },
  };
};

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;
