import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, isUnavailable } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { IdempotencyStore, KeyClaim, KeyRecord, StoredResponse } from '../../store/idempotency.ts';
import type { Reference } from '../../store/reference.ts';
import type { KeyBounds } from './key-bounds.ts';

export interface KeyClaimsOptions {
  idempotency: Pick<IdempotencyStore, 'find' | 'bodyOf' | 'claim' | 'takeOver' | 'advance' | 'complete' | 'release'>;
  bounds: KeyBounds;
  background: Pick<Background, 'signal' | 'attempt' | 'run'>;
}

export interface ClaimRequest {
  tenantId: string;
  key: string;
  requestHash: string;
  /** Whether a request that failed or was abandoned has left nothing behind, so that it may be done again. */
  isVoid: (known: KeyRecord) => Promise<boolean>;
}

/** A key claimed by a request. The request ends the claim by `complete`, `release` or `leave`, none of which throws. */
export interface Claim {
  /** Records that the work may start now. Throws when that cannot be stored: then the work must not start. */
  advance: (reference: Reference | undefined) => Promise<void>;
  /** Stores the response, or the failure: repeated requests get nothing else. */
  complete: (response: StoredResponse) => Promise<void>;
  /** Frees the key: the request did nothing. */
  release: () => Promise<void>;
  /** Leaves the key as it is: repeated requests read the result of the work that was started. */
  leave: () => void;
}

/** Either a claim for this request, or the record of the request that claimed the key before. */
export type Taken = { claim: Claim; known: undefined } | { claim: undefined; known: KeyRecord };

/** The end of a request that is not stored yet. */
interface PendingEnd {
  claim: KeyClaim;
  /** Null when the key is released. */
  response: StoredResponse | null;
  /** Whether the stored key records that work may have started, so that no other request takes it over. */
  isAdvanced: boolean;
  bytes: number;
}

const firstPauseMs = 100;
const longestPauseMs = 2000;
/** Bounds on the ends that are held while the database is unavailable. */
const maxPending = 10_000;
const maxPendingBytes = 16 * 1024 * 1024;
/** Above this mark, ends that carry no response are dropped, so that one tenant's failures cannot crowd out others' responses. */
const manyPending = maxPending / 2;

/**
 * The Idempotency-Keys of requests that are in progress in this gateway, at most one request for each. The end of a request is stored at
 * once; while the database is unavailable it is held in memory (10,000 keys, 16 MiB of responses) and stored later. A key that this
 * gateway has claimed but has no request for, because its end was dropped, counts as abandoned like the keys of a gateway that died.
 */
export const createKeyClaims = ({ idempotency, bounds, background }: KeyClaimsOptions) => {
  /**
   * The keys of requests in progress: from before a claim is stored until its end is stored or pending. A key of this gateway that is
   * neither held nor pending is abandoned.
   */
  const held = new Set<string>();
  const pending = new Map<string, PendingEnd>();
  let pendingBytes = 0;
  let isWriting = false;

  const forget = (name: string, ended: PendingEnd) => {
    if (pending.get(name) !== ended) return;
    pending.delete(name);
    pendingBytes -= ended.bytes;
  };

  const keep = (name: string, { claim, response, isAdvanced }: Omit<PendingEnd, 'bytes'>) => {
    // Without its end the key counts as abandoned, and the next request takes it over.
    const isDispensable = response === null && !isAdvanced;
    if (pending.size >= (isDispensable ? manyPending : maxPending)) return;
    const size = Buffer.byteLength(response?.body ?? '');
    const hasRoom = pendingBytes + size <= maxPendingBytes;
    const bytes = hasRoom ? size : 0;
    pendingBytes += bytes;
    const kept = response && !hasRoom ? { ...response, body: null } : response;
    pending.set(name, { claim, response: kept, isAdvanced, bytes });
    if (isWriting) return;
    isWriting = true;
    background.run('store how keyed requests ended', writeAll);
  };

  const write = async ({ claim, response }: Pick<PendingEnd, 'claim' | 'response'>) => {
    if (response === null) return await idempotency.release(claim);
    await idempotency.complete(claim, response);
    bounds.noteResponse(claim.tenantId, Buffer.byteLength(response.body ?? ''));
  };

  const writePending = async (name: string) => {
    const ended = pending.get(name);
    if (!ended) return;
    await write(ended).catch((error: unknown) => {
      if (!isUnavailable(error)) forget(name, ended);
      throw error;
    });
    forget(name, ended);
  };

  /** Runs until nothing is pending, or the gateway has ended: then its keys count as those of a gateway that died. */
  const writeAll = async () => {
    let pauseMs = firstPauseMs;
    while (pending.size > 0 && !background.signal.aborted) {
      await sleep(pauseMs, undefined, { signal: background.signal }).catch(() => {});
      const isWritten = await background.attempt('store how keyed requests ended', async () => {
        for (const name of [...pending.keys()]) await writePending(name);
      });
      pauseMs = isWritten ? firstPauseMs : Math.min(longestPauseMs, pauseMs * 4);
    }
    isWriting = false;
  };

  const end = async (name: string, ended: Omit<PendingEnd, 'bytes'>) => {
    await background.attempt('store how a keyed request ended', () =>
      write(ended).catch((error: unknown) => {
        if (isUnavailable(error)) keep(name, ended);
        throw error;
      }),
    );
    held.delete(name);
  };

  const claimOrFind = async (claim: KeyClaim, requestHash: string): Promise<KeyRecord | undefined> => {
    if (await bounds.hasRoom(claim.tenantId)) return await idempotency.claim(claim, requestHash);
    const known = await idempotency.find(claim.tenantId, claim.key);
    if (known) return known;
    throw bounds.refusal();
  };

  const toClaim = (name: string, claim: KeyClaim): Claim => {
    let isAdvanced = false;
    return {
      advance: (reference) => {
        // Set before the statement: one that fails without a response may still be executed.
        isAdvanced = true;
        return idempotency.advance(claim, reference);
      },
      complete: (response) => end(name, { claim, response, isAdvanced }),
      release: () => end(name, { claim, response: null, isAdvanced }),
      leave: () => held.delete(name),
    };
  };

  const knownAs = (record: KeyRecord): Taken => ({ known: record, claim: undefined });

  return {
    /** Returns the stored body of a response; null when it is no longer stored. */
    bodyOf: idempotency.bodyOf,

    /**
     * Claims a key for a request, or returns the record of the request that claimed it before. Throws `conflict` while the key changes
     * hands, `unavailable` while the database is, and `too_many_requests` when the tenant has used all its keys.
     */
    async take({ tenantId, key, requestHash, isVoid }: ClaimRequest): Promise<Taken> {
      const name = `${tenantId} ${key}`;
      await writePending(name);
      if (held.has(name)) {
        const found = await idempotency.find(tenantId, key);
        if (found?.isOwn) return knownAs({ ...found, isAbandoned: false });
        // Whether it is taken over from another gateway is just being decided.
        if (!found || found.isAbandoned) throw inUse();
        return knownAs(found);
      }
      held.add(name);
      const claim = { tenantId, key, id: randomUUID() };
      let isTaken = false;
      try {
        const row = await claimOrFind(claim, requestHash);
        const found = row?.isOwn ? { ...row, isAbandoned: row.status === null } : row;
        if (found && !(await isVoid(found))) return knownAs(found);
        // Another gateway may be faster, and does the work.
        if (found && !(await idempotency.takeOver(claim, found))) throw inUse();
        isTaken = true;
        return { claim: toClaim(name, claim), known: undefined };
      } catch (error) {
        // A statement that fails without a response may still be executed.
        if (isUnavailable(error)) keep(name, { claim, response: null, isAdvanced: false });
        throw error;
      } finally {
        if (!isTaken) held.delete(name);
      }
    },
  };
};

const inUse = () =>
  new CodeBoxError('conflict', 'This Idempotency-Key is in use; try again.', {
    reason: 'key_in_use',
    retryAfterSeconds: 1,
  });

export type KeyClaims = ReturnType<typeof createKeyClaims>;
