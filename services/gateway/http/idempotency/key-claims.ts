import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, isUnavailable } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { Answer, IdempotencyStore, KeyClaim, StoredAnswer } from '../../store/idempotency.ts';
import type { KeyBounds } from './key-bounds.ts';

export interface KeyClaimsOptions {
  idempotency: Pick<IdempotencyStore, 'find' | 'claim' | 'takeOver' | 'advance' | 'complete' | 'release'>;
  bounds: KeyBounds;
  background: Pick<Background, 'signal' | 'attempt' | 'run'>;
}

export interface Ask {
  tenantId: string;
  key: string;
  requestHash: string;
  /** Whether what a request that was abandoned began came to nothing, so that it may be done anew. */
  isVoid: (known: StoredAnswer) => Promise<boolean>;
}

/** A key taken by a request, which ends it in one of three ways. Those do not throw. */
export interface Claim {
  /** What was asked for may begin now. Throws when that cannot be written: then it must not begin. */
  advance: (location: string | undefined) => Promise<void>;
  /** It was answered, or failed, so that nothing but this may come of it. */
  complete: (answer: Answer) => Promise<void>;
  /** It did nothing: the key is free again. */
  release: () => Promise<void>;
  /** What it started tells how it goes on. */
  leave: () => void;
}

/** The key is this request's, or this is known of the one that has, or had, it. */
export type Taken = { claim: Claim; known: undefined } | { claim: undefined; known: StoredAnswer };

interface Ended {
  claim: KeyClaim;
  /** Null when the key is given back. */
  answer: Answer | null;
  /** Whether the key says that something may have begun, so that nobody takes it over. */
  isAdvanced: boolean;
  bytes: number;
}

const firstPauseMs = 100;
const longestPauseMs = 2000;
/** What is kept while the database is away. */
const maxDue = 10_000;
const maxDueBytes = 16 * 1024 * 1024;
/** Past it what can be done without is not kept: one tenant's requests that came to nothing leave room for the answers of others. */
const manyDue = maxDue / 2;

/**
 * The Idempotency-Keys of requests that are in progress in this gateway, each with at most one. How they ended is written at once;
 * while the database is away it is kept (10,000 keys, 16 MiB of answers) and written when it is back. A key of this gateway that is
 * in progress nowhere here, because its end could not be kept, is abandoned as are those of a gateway that died.
 */
export const createKeyClaims = ({ idempotency, bounds, background }: KeyClaimsOptions) => {
  /** From before a key is written as taken until its end is written, or due to be: so whatever is in neither is abandoned. */
  const held = new Set<string>();
  const due = new Map<string, Ended>();
  let dueBytes = 0;
  let isAwake = false;

  const forget = (name: string, ended: Ended) => {
    if (due.get(name) !== ended) return;
    due.delete(name);
    dueBytes -= ended.bytes;
  };

  const keep = (name: string, { claim, answer, isAdvanced }: Omit<Ended, 'bytes'>) => {
    // Such a key counts as abandoned, and whoever asks next takes it over.
    const isNeedless = answer === null && !isAdvanced;
    if (due.size >= (isNeedless ? manyDue : maxDue)) return;
    const size = Buffer.byteLength(answer?.body ?? '');
    const isKept = dueBytes + size <= maxDueBytes;
    const bytes = isKept ? size : 0;
    dueBytes += bytes;
    due.set(name, { claim, answer: answer && !isKept ? { ...answer, body: null } : answer, isAdvanced, bytes });
    if (isAwake) return;
    isAwake = true;
    background.run('write how keyed requests ended', writeAll);
  };

  const write = async ({ claim, answer }: Pick<Ended, 'claim' | 'answer'>) => {
    if (answer === null) return await idempotency.release(claim);
    await idempotency.complete(claim, answer);
    bounds.noteAnswer(claim.tenantId, Buffer.byteLength(answer.body ?? ''));
  };

  const writeDue = async (name: string) => {
    const ended = due.get(name);
    if (!ended) return;
    await write(ended).catch((error: unknown) => {
      if (!isUnavailable(error)) forget(name, ended);
      throw error;
    });
    forget(name, ended);
  };

  /** Until nothing is due any more, or the gateway has ended: then the keys are those of a gateway that died. */
  const writeAll = async () => {
    let pauseMs = firstPauseMs;
    while (due.size > 0 && !background.signal.aborted) {
      await sleep(pauseMs, undefined, { signal: background.signal }).catch(() => {});
      const isWritten = await background.attempt('write how keyed requests ended', async () => {
        for (const name of [...due.keys()]) await writeDue(name);
      });
      pauseMs = isWritten ? firstPauseMs : Math.min(longestPauseMs, pauseMs * 4);
    }
    isAwake = false;
  };

  const end = async (name: string, ended: Omit<Ended, 'bytes'>) => {
    await background.attempt('write how a keyed request ended', () =>
      write(ended).catch((error: unknown) => {
        if (isUnavailable(error)) keep(name, ended);
        throw error;
      }),
    );
    held.delete(name);
  };

  const claimOrFind = async (claim: KeyClaim, requestHash: string): Promise<StoredAnswer | undefined> => {
    if (await bounds.hasRoom(claim.tenantId)) return await idempotency.claim(claim, requestHash);
    const known = await idempotency.find(claim.tenantId, claim.key);
    if (known) return known;
    throw bounds.refusal();
  };

  const toClaim = (name: string, claim: KeyClaim): Claim => {
    let isAdvanced = false;
    return {
      advance: (location) => {
        // Before it is written: what was not answered may be done all the same.
        isAdvanced = true;
        return idempotency.advance(claim, location);
      },
      complete: (answer) => end(name, { claim, answer, isAdvanced }),
      release: () => end(name, { claim, answer: null, isAdvanced }),
      leave: () => held.delete(name),
    };
  };

  const known = (answer: StoredAnswer): Taken => ({ known: answer, claim: undefined });

  return {
    /**
     * Takes a key for a request, or answers what is known of the one that took it. Throws `conflict` while it changes hands,
     * `unavailable` while the database is away, and `too_many_requests` when the tenant has used all its keys.
     */
    async take({ tenantId, key, requestHash, isVoid }: Ask): Promise<Taken> {
      const name = `${tenantId} ${key}`;
      await writeDue(name);
      if (held.has(name)) {
        const found = await idempotency.find(tenantId, key);
        if (found) return known(found.isOwn ? { ...found, isAbandoned: false } : found);
        throw new CodeBoxError('conflict', 'This Idempotency-Key is in use.', {
          reason: 'key_in_use',
          retryAfterSeconds: 1,
        });
      }
      held.add(name);
      const claim = { tenantId, key, id: randomUUID() };
      let isTaken = false;
      try {
        const row = await claimOrFind(claim, requestHash);
        const found = row?.isOwn ? { ...row, isAbandoned: row.status === null } : row;
        isTaken = !found || ((await isVoid(found)) && (await idempotency.takeOver(claim, found)));
        return found && !isTaken ? known(found) : { claim: toClaim(name, claim), known: undefined };
      } catch (error) {
        // What was not answered may be done all the same.
        if (isUnavailable(error)) keep(name, { claim, answer: null, isAdvanced: false });
        throw error;
      } finally {
        if (!isTaken) held.delete(name);
      }
    },
  };
};

export type KeyClaims = ReturnType<typeof createKeyClaims>;
