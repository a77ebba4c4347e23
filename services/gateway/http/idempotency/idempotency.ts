import type { Context } from 'hono';
import { CodeBoxError, hasCode } from '#contract';
import { asCodeBoxError } from '../../../http/problem.ts';
import { streamFormat } from '../../../http/stream.ts';
import type { StoredAnswer } from '../../store/idempotency.ts';
import type { Env } from '../env.ts';
import type { Claim, KeyClaims } from './key-claims.ts';

/** What is done with a repeated request besides giving it the first answer. */
interface Replay {
  /** Answers from what an earlier request started. */
  join: (c: Context<Env>, location: string) => Promise<Response>;
  /** Keeps the whole answer too, for what cannot be read for ever at its location. */
  keepsAnswer: boolean;
  /** Joins only what was abandoned by who started it; until then the request is in progress. */
  onlyAbandoned: boolean;
  /** Whether nothing is left of what was started there, so that it can be done anew. */
  cameToNothing: (location: string) => Promise<boolean>;
}

export interface AnswerOnce {
  c: Context<Env>;
  claims: KeyClaims;
  key: string;
  /** Of method, path and body: the same key with another request is a mistake of the caller. */
  hash: string;
  answer: () => Promise<Response>;
  replay: Replay | undefined;
}

/** A longer answer is not kept: its request is not done again, and repeating it says so. */
const maxKeptBytes = 8 * 1024 * 1024;

/**
 * Does what a request asks for once per tenant and key: a repeated request gets the first answer, or is joined to what the
 * first one started. `conflict` while the first is in progress, `idempotency_mismatch` for another body. A request that
 * was refused before it did anything gives its key back; after a failure whose effect nobody knows, repeating it is a
 * `conflict` that says so. The key of a gateway that died, or that could not keep how a request ended, is taken over when nothing
 * can have begun; else it is joined to what was started, or its effect is unknown: code that may have run is never run again.
 */
export const answerOnce = async ({ c, claims, key, hash, answer, replay }: AnswerOnce): Promise<Response> => {
  const { claim, known } = await claims.take({
    tenantId: c.get('tenant'),
    key,
    requestHash: hash,
    isVoid: (found) => isVoid(found, hash, replay),
  });
  return claim ? await answerFirst(c, claim, answer, replay) : await repeat(c, known, hash, replay);
};

const answerFirst = async (
  c: Context<Env>,
  claim: Claim,
  answer: () => Promise<Response>,
  replay: Replay | undefined,
): Promise<Response> => {
  let state: 'untouched' | 'maybe' | 'started' = 'untouched';
  const advance = (to: 'maybe' | 'started') => async (location?: string) => {
    // Fails where another gateway has taken over; what has begun before is known already.
    if (state === 'untouched' || location !== undefined) await claim.advance(location);
    state = to;
  };
  const isUndone = () => {
    state = 'untouched';
  };
  c.set('progress', { mayStart: advance('maybe'), hasStarted: advance('started'), isUndone });
  try {
    const response = await answer();
    const isJoined = replay !== undefined && (state as string) === 'started';
    if (isJoined && (!replay.keepsAnswer || response.status !== 200 || streamFormat(c))) {
      claim.leave();
      return response;
    }
    const text = await response.clone().text();
    await claim.complete({
      status: response.status,
      body: Buffer.byteLength(text) <= maxKeptBytes ? text : null,
      contentType: response.headers.get('content-type'),
    });
    return response;
  } catch (error) {
    if (didNothing(state, asCodeBoxError(error).code)) await claim.release();
    else await claim.complete({ status: failed, body: null, contentType: null });
    throw error;
  }
};

/** Stands for an answer that was an error after something may have happened. */
const failed = 500;

const didNothing = (state: 'untouched' | 'maybe' | 'started', code: CodeBoxError['code']): boolean => {
  if (state === 'started' || code === 'internal') return false;
  return state === 'untouched' || (code !== 'unavailable' && code !== 'timeout');
};

/** Whether the first request has done nothing and never will, because nobody has it in progress any more. */
const isVoid = async (known: StoredAnswer, hash: string, replay: Replay | undefined): Promise<boolean> => {
  if (!known.isAbandoned || known.requestHash !== hash) return false;
  if (!known.mayHaveStarted) return true;
  return replay !== undefined && known.location !== null && (await replay.cameToNothing(known.location));
};

const repeat = async (
  c: Context<Env>,
  known: StoredAnswer,
  hash: string,
  replay: Replay | undefined,
): Promise<Response> => {
  if (known.requestHash !== hash) {
    throw new CodeBoxError('idempotency_mismatch', 'This Idempotency-Key belongs to another request.');
  }
  c.header('Idempotency-Replayed', 'true');
  const isInProgress = known.status === null && !known.isAbandoned;
  const canJoin = replay !== undefined && known.location !== null && !(isInProgress && replay.onlyAbandoned);
  if (known.location !== null) c.header('Content-Location', known.location);
  if (known.status !== null && known.body !== null && !(canJoin && streamFormat(c))) {
    return c.body(known.body, known.status as 200, { 'Content-Type': known.contentType ?? 'application/json' });
  }
  if (canJoin && known.location !== null) {
    return await replay.join(c, known.location).catch((error: unknown) => {
      // Noted, but not there: it is on its way, or never came so far.
      const isMissing = hasCode(error, 'not_found');
      const isKnown = known.status !== null && known.status !== failed;
      if (isKnown || !isMissing) throw error;
      throw isInProgress ? inProgress() : unknownEffect();
    });
  }
  if (isInProgress) throw inProgress();
  if (known.status === null || known.status === failed) throw unknownEffect();
  throw new CodeBoxError('conflict', notKept, { reason: 'answer_not_kept' });
};

const notKept =
  'The first request with this Idempotency-Key was done, and is not done again. Its answer is not kept: it was too long, or later ones have taken its place.';

const inProgress = () =>
  new CodeBoxError('conflict', 'The first request with this Idempotency-Key is still in progress.', {
    reason: 'key_in_use',
    retryAfterSeconds: 1,
  });

const unknownEffect = () =>
  new CodeBoxError(
    'conflict',
    'The first request with this Idempotency-Key failed on the way: whether it had an effect is unknown.',
    { reason: 'effect_unknown' },
  );
