import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError, type KeyScope } from '#contract';
import { givenKey, keyMistake } from '../../../http/given-key.ts';
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
}

/** Under this name the operator's Idempotency-Keys are kept: no tenant has it. */
export const operator = '@admin';

const noKey = (mistake = '') =>
  new CodeBoxError('unauthorized', `A valid API key is needed: Authorization: Bearer cbx_…${mistake}`);
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
export const createAdmission = ({ keys, failures, addressOf }: AdmissionOptions) => {
  /** Throws `too_many_requests` for an address that has failed too often. */
  const refuseBlocked = (c: Context<Env>) => {
    const retryAfterSeconds = failures.waitSeconds(addressOf(c));
    if (retryAfterSeconds === undefined) return;
    throw new CodeBoxError('too_many_requests', 'Too many wrong keys came from this address.', { retryAfterSeconds });
  };

  return {
    /**
     * By an API key. Every refusal of a key is the same 401. For an address with too many of them only keys are looked up that were
     * good before. A foreign key, of a server in a box, may be wrong as often as it likes.
     */
    async byKey(c: Context<Env>, { isForeign = false } = {}): Promise<KnownCaller> {
      const key = givenKey(c) ?? '';
      const counts = key !== '' && !isForeign;
      if (counts && !keys.isRemembered(key)) refuseBlocked(c);
      const caller = await keys.callerOf(key);
      if (!caller && counts) failures.note(addressOf(c));
      if (!caller) throw noKey(keyMistake(c));
      admit(c, caller);
      return caller;
    },

    /** By what a ticket stood for, while the key that made it is valid. */
    async byTicket(c: Context<Env>, maker: Caller | undefined): Promise<KnownCaller> {
      const caller = await keys.still(maker);
      if (!caller) throw noTicket();
      admit(c, caller);
      return caller;
    },

    /** By the operator's key. Throws `not_found` where there is none. */
    byAdminKey(c: Context<Env>, adminKey: string | undefined): void {
      if (adminKey === undefined)
        throw new CodeBoxError('not_found', 'The admin API is off: CODEBOX_ADMIN_KEY is not set.');
      const key = givenKey(c) ?? '';
      if (!isSame(key, adminKey)) {
        refuseBlocked(c);
        if (key !== '') failures.note(addressOf(c));
        throw new CodeBoxError('unauthorized', `The admin key is needed: Authorization: Bearer …${keyMistake(c)}`);
      }
      c.set('tenant', operator);
      c.set('log', c.get('log').child({ actor: 'admin' }));
    },
  };
};

export type Admission = ReturnType<typeof createAdmission>;

/** In a time that tells nothing of where they differ, nor of their lengths. */
const isSame = (given: string, secret: string): boolean => {
  const [one, other] = [given, secret].map((text) => createHash('sha256').update(text).digest());
  return one !== undefined && other !== undefined && timingSafeEqual(one, other);
};

export interface AuthenticateOptions {
  admission: Admission;
  rates: RequestRates;
  /** Who made a single-use ticket for a box. */
  redeemTicket: (ticket: string, box: string) => Promise<Caller | undefined>;
  adminKey: string | undefined;
}

const adminPath = /^\/v1\/admin(\/|$)/;
const boxPath = /^\/v1\/boxes\/([^/]+)\//;

/**
 * Lets in requests with a valid key in `Authorization: Bearer` or `X-API-Key`; sets `tenant` and `keyId`. A WebSocket may have
 * `?ticket=` instead, because a browser cannot set its headers; pages elsewhere have neither, so their origin does not matter.
 * A ticket is worth as much as the key that made it. The admin API has a key of its own.
 */
export const authenticate =
  ({ admission, rates, redeemTicket, adminKey }: AuthenticateOptions): MiddlewareHandler<Env> =>
  async (c, next) => {
    if (adminPath.test(c.req.path)) {
      admission.byAdminKey(c, adminKey);
      return await next();
    }
    const ticket = c.env?.upgrade && givenKey(c) === undefined ? c.req.query('ticket') : undefined;
    const caller =
      ticket === undefined
        ? await admission.byKey(c)
        : await admission.byTicket(c, await redeemTicket(ticket, boxPath.exec(c.req.path)?.[1] ?? ''));
    await rates.count(c, caller);
    await next();
  };
