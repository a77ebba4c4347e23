import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context } from 'hono';
import { CodeBoxError, type KeyScope } from '#contract';
import type { OpenRequests } from '../../../http/server/open-requests.ts';
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
  /** Uses up a ticket for a box; resolves with the caller who created it, or undefined for an invalid one. */
  redeemTicket: (ticket: string, box: string) => Promise<Caller | undefined>;
  adminKey: string | undefined;
}

export type { Caller };

/** The credential of a request. */
export type Credential =
  /** An API key as it was issued. */
  | { key: string }
  /** A single-use ticket and the box it is presented for. It grants the rights of the key that created it. */
  | { ticket: string; box: string }
  /** The caller behind a token that was already verified; it is accepted while that caller's key is valid. */
  | { maker: Caller }
  /** A credential whose caller has to be searched for. When none is found, it counts as a wrong key of its address. */
  | { find: () => Promise<Caller | undefined> }
  | { operatorKey: string };

/** How requests of one surface present their credentials. */
export interface Admits {
  /** Returns undefined for a request without a credential. Throws for a credential that is refused outright. */
  credentialOf: (c: Context<Env>) => Credential | undefined | Promise<Credential | undefined>;
  /** Returns the error text: which credential is needed, and what is wrong with the given one. */
  needed: (c: Context<Env>) => string;
}

/** Stands for the tenant in the operator's requests and Idempotency-Keys; no tenant has this id. */
const operator = '@admin';

export const keyNeeded = 'A valid API key is needed: Authorization: Bearer cbx_…';

const noKey = (needed = keyNeeded) => new CodeBoxError('unauthorized', needed);
const noTicket = () =>
  new CodeBoxError(
    'unauthorized',
    'The ticket is not valid: it was used, has expired, or is for another box. Create another one.',
  );

/** Returns the caller; throws the 401 of invalid keys when there is none. */
export const requireCaller = (caller: KnownCaller | undefined): KnownCaller => {
  if (!caller) throw noKey();
  return caller;
};

/** Admits a request of this caller. Throws `forbidden` when its tenant is suspended. */
export const admit = (c: Context<Env>, caller: KnownCaller): void => {
  if (caller.isSuspended) throw new CodeBoxError('forbidden', 'The tenant of this key is suspended.');
  c.set('tenant', caller.tenantId);
  c.set('keyId', caller.keyId);
  c.set('scopes', caller.scopes);
  c.set('log', c.get('log').child({ tenant: caller.tenantId }));
};

/** The credential that a route requires: a key with this scope, any key, the operator's key, or nothing. */
export type RouteScope = KeyScope | 'any' | 'admin' | 'public';

/**
 * Throws `forbidden` when the key that admitted the request lacks this scope, and `unauthorized` when no key admitted it: a route without
 * an admission in front of it is closed.
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

/** Authenticates requests. Each method either admits the request and returns its caller, or throws. */
export const createAdmission = (options: AdmissionOptions) => {
  const { keys, failures, addressOf, rates, openRequests, redeemTicket, adminKey } = options;
  /** Throws `too_many_requests` for an address that has failed too often. */
  const refuseBlocked = (c: Context<Env>) => {
    const retryAfterSeconds = failures.waitSeconds(addressOf(c));
    if (retryAfterSeconds === undefined) return;
    throw new CodeBoxError(
      'too_many_requests',
      'Too many wrong keys came from this address; wait, then use a valid key.',
      {
        retryAfterSeconds,
      },
    );
  };

  /**
   * Admits by API key. Every key that is refused gets the same 401. For an address with too many failures, only keys that were recently valid are
   * looked up. A foreign key, meant for the server in a box, does not count as a failure.
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

  /** Admits by a ticket, session or token, while the key that created it is valid. */
  const byMaker = async (c: Context<Env>, maker: Caller | undefined, refusal: CodeBoxError): Promise<KnownCaller> => {
    const caller = await keys.still(maker);
    if (!caller) throw refusal;
    admit(c, caller);
    return caller;
  };
  const byTicket = (c: Context<Env>, maker: Caller | undefined) => byMaker(c, maker, noTicket());

  /** Admits by the operator's key. Throws `not_found` when none is configured. */
  const byOperatorKey = (c: Context<Env>, key: string, needed: string): void => {
    if (adminKey === undefined)
      throw new CodeBoxError('not_found', 'The admin API is off: set CODEBOX_ADMIN_KEY to enable it.');
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
    given: Exclude<Credential, { operatorKey: string }> | undefined,
    needed: string,
  ): Promise<KnownCaller> => {
    if (given && 'ticket' in given) return await byTicket(c, await redeemTicket(given.ticket, given.box));
    if (given && 'find' in given) {
      refuseBlocked(c);
      const maker = await given.find();
      if (!maker) failures.note(addressOf(c));
      return await byMaker(c, maker, noKey(needed));
    }
    if (given && 'maker' in given) return await byMaker(c, given.maker, noKey(needed));
    return await byKey(c, given?.key, { needed });
  };

  return {
    byKey,
    byTicket,

    /**
     * Admits a request whose credential has this scope; without a scope (a path without a route) any valid credential does. Sets `tenant`
     * and `keyId`, and counts the request against the limits of its tenant. Throws `unauthorized`, `forbidden`, `too_many_requests` or
     * `quota_exceeded`.
     */
    async admit(c: Context<Env>, { credentialOf, needed }: Admits, scope?: RouteScope): Promise<void> {
      if (scope === 'public') return;
      const given = await credentialOf(c);
      if (given && 'operatorKey' in given) byOperatorKey(c, given.operatorKey, needed(c));
      else {
        const caller = await recognize(c, given, needed(c));
        openRequests(c, caller.tenantId);
        await rates.count(c, caller);
      }
      if (scope !== undefined) requireScope(c, scope);
    },
  };
};

export type Admission = ReturnType<typeof createAdmission>;

/** Compares in constant time: neither the position of a difference nor the lengths can be measured. */
const isSame = (given: string, secret: string): boolean => {
  const [one, other] = [given, secret].map((text) => createHash('sha256').update(text).digest());
  return one !== undefined && other !== undefined && timingSafeEqual(one, other);
};
