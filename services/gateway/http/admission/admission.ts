import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context } from 'hono';
import { CodeBoxError, type KeyScope } from '#contract';
import type { OpenRequests } from '../../../http/open-requests.ts';
import type { Caller } from '../../store/tenants/keys.ts';
import type { Env } from '../env.ts';
import type { AddressOf } from './address.ts';
import type { Failures } from './failures.ts';
import type { KeyCheck, KnownCaller } from './key-check.ts';
import type { RequestRates } from './request-rates.ts';

export interface AdmissionOptions {
  keys: KeyCheck;
  failures: Failures;
  addressOf: AddressOf;
  rates: Pick<RequestRates, 'count'>;
  openRequests: OpenRequests;
  /** Who made a single-use ticket for a box. */
  redeemTicket: (ticket: string, box: string) => Promise<Caller | undefined>;
  adminKey: string | undefined;
}

/** What a request shows to be let in. */
export type Credential =
  /** An API key as it was handed out. */
  | { key: string }
  /** A single-use ticket, and the box that it is shown for. It is worth as much as the key that made it. */
  | { ticket: string; box: string }
  /** Whoever stands behind a token that has been opened already; it holds for as long as that key is valid. */
  | { maker: Caller }
  | { operatorKey: string };

/** How requests of one kind show their credentials. */
export interface Admits {
  /** Undefined for a request that shows nothing. Throws for a credential that is refused at once. */
  credentialOf: (c: Context<Env>) => Credential | undefined | Promise<Credential | undefined>;
  /** The sentence that says which credential is needed, and what is wrong with the form of the one that was shown. */
  needed: (c: Context<Env>) => string;
}

/** Under this name the operator's Idempotency-Keys are kept: no tenant has it. */
const operator = '@admin';

export const keyNeeded = 'A valid API key is needed: Authorization: Bearer cbx_…';

const noKey = (needed = keyNeeded) => new CodeBoxError('unauthorized', needed);
const noTicket = () =>
  new CodeBoxError('unauthorized', 'The ticket is not valid: it is used, expired, or of another box.');

/** The caller; throws the one 401 of keys when there is none. */
export const requireCaller = (caller: KnownCaller | undefined): KnownCaller => {
  if (!caller) throw noKey();
  return caller;
};

/** Lets a request of this caller in. Throws `forbidden` for one whose tenant is suspended. */
export const admit = (c: Context<Env>, caller: KnownCaller): void => {
  if (caller.isSuspended) throw new CodeBoxError('forbidden', 'The tenant of this key is suspended.');
  c.set('tenant', caller.tenantId);
  c.set('keyId', caller.keyId);
  c.set('scopes', caller.scopes);
  c.set('log', c.get('log').child({ tenant: caller.tenantId }));
};

/** What a route asks of its caller: a key with this scope, any key at all, the operator's key, or nothing. */
export type RouteScope = KeyScope | 'any' | 'admin' | 'public';

/**
 * Throws `forbidden` when the key that let the request in does not have this scope, and `unauthorized` when no such key did: a route that
 * nothing stands in front of is closed.
 */
export const requireScope = (c: Context<Env>, scope: RouteScope): void => {
  if (scope === 'public') return;
  const isOperator = c.get('tenant') === operator;
  if (scope === 'admin') {
    if (!isOperator) throw new CodeBoxError('unauthorized', 'The admin key is needed: Authorization: Bearer …');
    return;
  }
  if (c.get('keyId') === undefined) throw noKey();
  const scopes = c.get('scopes');
  if (scope !== 'any' && scopes && !scopes.includes(scope))
    throw new CodeBoxError('forbidden', `This key lacks the scope ${scope}.`);
};

/** Who may come in. Each way either admits the request, answering its caller, or throws. */
export const createAdmission = (options: AdmissionOptions) => {
  const { keys, failures, addressOf, rates, openRequests, redeemTicket, adminKey } = options;
  /** Throws `too_many_requests` for an address that has failed too often. */
  const refuseBlocked = (c: Context<Env>) => {
    const retryAfterSeconds = failures.waitSeconds(addressOf(c));
    if (retryAfterSeconds === undefined) return;
    throw new CodeBoxError('too_many_requests', 'Too many wrong keys came from this address.', { retryAfterSeconds });
  };

  /**
   * By an API key. Every refusal of a key is the same 401. For an address with too many of them only keys are looked up that were
   * good before. A foreign key, of a server in a box, may be wrong as often as it likes.
   */
  const byKey = async (
    c: Context<Env>,
    key: string | undefined,
    { needed, isForeign = false }: { needed: string; isForeign?: boolean },
  ): Promise<KnownCaller> => {
    const counts = key !== undefined && key !== '' && !isForeign;
    if (counts && !keys.isRemembered(key)) refuseBlocked(c);
    const caller = await keys.callerOf(key ?? '');
    if (!caller && counts) failures.note(addressOf(c));
    if (!caller) throw noKey(needed);
    admit(c, caller);
    return caller;
  };

  /** By what was made with a key, while that key is valid. */
  const byMaker = async (c: Context<Env>, maker: Caller | undefined, refusal: CodeBoxError): Promise<KnownCaller> => {
    const caller = await keys.still(maker);
    if (!caller) throw refusal;
    admit(c, caller);
    return caller;
  };
  const byTicket = (c: Context<Env>, maker: Caller | undefined) => byMaker(c, maker, noTicket());

  /** By the operator's key. Throws `not_found` where there is none. */
  const byOperatorKey = (c: Context<Env>, key: string, needed: string): void => {
    if (adminKey === undefined)
      throw new CodeBoxError('not_found', 'The admin API is off: CODEBOX_ADMIN_KEY is not set.');
    if (!isSame(key, adminKey)) {
      refuseBlocked(c);
      if (key !== '') failures.note(addressOf(c));
      throw noKey(needed);
    }
    c.set('tenant', operator);
    c.set('log', c.get('log').child({ actor: 'admin' }));
  };

  const recognize = async (
    c: Context<Env>,
    shown: Exclude<Credential, { operatorKey: string }> | undefined,
    needed: string,
  ): Promise<KnownCaller> => {
    if (shown && 'ticket' in shown) return await byTicket(c, await redeemTicket(shown.ticket, shown.box));
    if (shown && 'maker' in shown) return await byMaker(c, shown.maker, noKey(needed));
    return await byKey(c, shown?.key, { needed });
  };

  return {
    byKey,
    byTicket,

    /**
     * Lets in a request whose credential has this scope, or any valid one for a path that leads nowhere; sets `tenant` and `keyId`. It
     * counts as a request of its tenant. Throws `unauthorized`, `forbidden`, `too_many_requests` or `quota_exceeded`.
     */
    async letIn(c: Context<Env>, { credentialOf, needed }: Admits, scope?: RouteScope): Promise<void> {
      if (scope === 'public') return;
      const shown = await credentialOf(c);
      if (shown && 'operatorKey' in shown) byOperatorKey(c, shown.operatorKey, needed(c));
      else {
        const caller = await recognize(c, shown, needed(c));
        openRequests(c, caller.tenantId);
        await rates.count(c, caller);
      }
      if (scope !== undefined) requireScope(c, scope);
    },
  };
};

export type Admission = ReturnType<typeof createAdmission>;

/** In a time that tells nothing of where they differ, nor of their lengths. */
const isSame = (given: string, secret: string): boolean => {
  const [one, other] = [given, secret].map((text) => createHash('sha256').update(text).digest());
  return one !== undefined && other !== undefined && timingSafeEqual(one, other);
};
