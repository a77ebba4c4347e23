import type { Context } from 'hono';
import { CodeBoxError, hasCode } from '#contract';
import { streamFormat } from '../../../http/bodies/stream.ts';
import { asCodeBoxError } from '../../../http/problems/problem.ts';
import type { KeyRecord } from '../../store/idempotency.ts';
import type { Reference } from '../../store/reference.ts';
import type { Env } from '../env.ts';
import type { Claim, KeyClaims } from './key-claims.ts';
import type { SendLarge } from './large-responses.ts';
import { locationOf } from './location.ts';
import { storeStream } from './stored-stream.ts';

/** How a repeated request is joined to the work of the first one. */
interface Replay {
  /** Responds with what an earlier request started. */
  join: (reference: Reference) => Promise<Response>;
  /** Also stores the whole response, for results that cannot be read again for ever. */
  storesResponse: boolean;
  /** Joins only work whose gateway abandoned it; until then the request counts as in progress. */
  onlyAbandoned: boolean;
  /** Whether nothing is left of the work, so that it can be done again. */
  leftNothing: (reference: Reference) => Promise<boolean>;
}

export interface RespondOnce {
  c: Context<Env>;
  claims: KeyClaims;
  sendLarge: SendLarge;
  key: string;
  /** The hash of method, path and body: the same key with another hash is a mistake of the caller. */
  hash: string;
  respond: () => Promise<Response>;
  replay: Replay | undefined;
}

/** A longer body is not stored: its request is still not done again, and repeating it is a `conflict`. */
const maxStoredBytes = 8 * 1024 * 1024;
/** A tenant may have a few longer stored responses in memory at a time. */
const largeBytes = 64 * 1024;

/**
 * Performs a request once per tenant and key: a repeated request gets the first response, or is joined to what the first one
 * started. Throws `conflict` while the first is in progress, and `idempotency_mismatch` for another body. A request that was
 * refused before it did anything releases its key; after a failure with an unknown effect, repeating it is a `conflict` that says
 * so. The key of a gateway that died, or that could not store how a request ended, is taken over when no work can have started, and
 * so is any key whose work has failed and left nothing; otherwise the repeated request is joined to that work, or its effect is
 * unknown: code that may have run is never run again.
 */
export const respondOnce = async ({
  c,
  claims,
  sendLarge,
  key,
  hash,
  respond,
  replay,
}: RespondOnce): Promise<Response> => {
  const { claim, known } = await claims.take({
    tenantId: c.get('tenant'),
    key,
    requestHash: hash,
    isVoid: (found) => isVoid(found, hash, replay),
  });
  if (claim) return await respondFirst(c, claim, respond, replay);
  const respondStored = async (): Promise<Response> => {
    const body = await claims.bodyOf(c.get('tenant'), key);
    if (body === null) throw noLongerStored();
    return c.body(body, known.status as 200, { 'Content-Type': known.contentType ?? 'application/json' });
  };
  const stored = () => ((known.bodyBytes ?? 0) > largeBytes ? sendLarge(c, '', respondStored) : respondStored());
  return await repeat(c, known, hash, replay, stored);
};

const respondFirst = async (
  c: Context<Env>,
  claim: Claim,
  respond: () => Promise<Response>,
  replay: Replay | undefined,
): Promise<Response> => {
  let state: 'untouched' | 'maybe' | 'started' = 'untouched';
  const advance = (to: 'maybe' | 'started') => async (reference?: Reference) => {
    // Throws when another gateway has taken over. Later calls have nothing new to record.
    if (state === 'untouched') await claim.advance(reference);
    state = to;
  };
  const isUndone = () => {
    state = 'untouched';
  };
  c.set('progress', { mayStart: advance('maybe'), hasStarted: advance('started'), isUndone });
  try {
    const response = await respond();
    const isJoined = replay !== undefined && (state as string) === 'started';
    if (isJoined && (!replay.storesResponse || response.status !== 200 || streamFormat(c))) {
      claim.leave();
      return response;
    }
    if (c.get('isStream')) return storeStream(response, maxStoredBytes, completeStream(claim));
    const text = await response.clone().text();
    await claim.complete({
      status: response.status,
      body: Buffer.byteLength(text) <= maxStoredBytes ? text : null,
      contentType: response.headers.get('content-type'),
    });
    return response;
  } catch (error) {
    if (didNothing(state, asCodeBoxError(error).code)) await claim.release();
    else await claim.complete({ status: failed, body: null, contentType: null });
    throw error;
  }
};

/** Stores the text of a stream as the response; null for one that is too long, undefined for one that broke. */
const completeStream = (claim: Claim) => (text: string | null | undefined, contentType: string | null) =>
  claim.complete(
    text === undefined ? { status: failed, body: null, contentType: null } : { status: 200, body: text, contentType },
  );

/** The stored status of a request that failed after its work may have started. */
const failed = 500;

const didNothing = (state: 'untouched' | 'maybe' | 'started', code: CodeBoxError['code']): boolean => {
  if (state === 'started' || code === 'internal') return false;
  return state === 'untouched' || (code !== 'unavailable' && code !== 'timeout');
};

/** Whether the first request has done nothing and never will, because it failed or was abandoned. */
const isVoid = async (known: KeyRecord, hash: string, replay: Replay | undefined): Promise<boolean> => {
  if (!(known.isAbandoned || known.status === failed) || known.requestHash !== hash) return false;
  if (!known.mayHaveStarted) return known.isAbandoned;
  return replay !== undefined && known.reference !== null && (await replay.leftNothing(known.reference));
};

const repeat = async (
  c: Context<Env>,
  known: KeyRecord,
  hash: string,
  replay: Replay | undefined,
  respondStored: () => Promise<Response>,
): Promise<Response> => {
  if (known.requestHash !== hash) {
    throw new CodeBoxError(
      'idempotency_mismatch',
      'This Idempotency-Key belongs to another request; use a new key for each request.',
    );
  }
  c.header('Idempotency-Replayed', 'true');
  const isInProgress = known.status === null && !known.isAbandoned;
  const { reference } = known;
  const canJoin = replay !== undefined && reference !== null && !(isInProgress && replay.onlyAbandoned);
  if (reference !== null) c.header('Content-Location', locationOf(reference));
  if (known.status !== null && known.bodyBytes !== null && !(canJoin && streamFormat(c))) return await respondStored();
  if (canJoin) {
    return await replay.join(reference).catch((error: unknown) => {
      // The reference is recorded but nothing is there: the work is still being started, or never was.
      const isMissing = hasCode(error, 'not_found');
      const isKnown = known.status !== null && known.status !== failed;
      if (isKnown || !isMissing) throw error;
      throw isInProgress ? inProgress() : unknownEffect();
    });
  }
  if (isInProgress) throw inProgress();
  if (known.status === null || known.status === failed) throw unknownEffect();
  throw noLongerStored();
};

const noLongerStored = () =>
  new CodeBoxError(
    'conflict',
    'The first request with this Idempotency-Key was done and is not done again. Its response is no longer stored: it was too long, or newer ones have replaced it.',
    { reason: 'answer_not_kept' },
  );

const inProgress = () =>
  new CodeBoxError('conflict', 'The first request with this Idempotency-Key is still in progress.', {
    reason: 'key_in_use',
    retryAfterSeconds: 1,
  });

const unknownEffect = () =>
  new CodeBoxError(
    'conflict',
    'The first request with this Idempotency-Key failed midway, and whether it had an effect is unknown. Check before sending it with a new key.',
    { reason: 'effect_unknown' },
  );
