import { createHash, randomBytes } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { type Client, CodeBoxError, plainText } from '#contract';
import { checkInput } from '../../http/endpoints/endpoint.ts';
import { givenKey, keyMistake } from '../../http/endpoints/given-key.ts';
import type { Callers } from '../chats/callers.ts';
import type { Owner } from '../chats/owner.ts';
import type { Env } from './env.ts';

export interface OwnerOptions {
  clientFor: (key: string | undefined) => Client;
  callers: Callers;
  /** Whether browsers are admitted without a key. */
  isOpen: boolean;
  /**
   * Host names under which the agent accepts requests without a key; any, when it does not listen on loopback and none
   * are set.
   */
  hosts: readonly string[];
}

/**
 * The prefix keeps the cookie from servers in boxes, which share a host with the agent: the gateway forwards no cookie
 * of CodeBox to them.
 */
const cookieName = 'codebox-visitor';
const cookieSeconds = 400 * 86_400;
const cookiePattern = /^[\w-]{43}$/;
const userSchema = plainText().min(1).max(256);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * Identifies the owner of a request: the tenant of the given API key, for one of its users when a header names one; or,
 * where the agent is open, a visitor known by a cookie, who belongs to the agent's own tenant. Other requests are
 * `unauthorized`.
 */
export const createOwners = ({ clientFor, callers, isOpen, hosts }: OwnerOptions) => {
  const refuse = (detail: string) => {
    throw new CodeBoxError('forbidden', detail);
  };

  /** Whether a request comes from the page itself, or from an address that somebody typed. */
  const isOwnPage = (c: Context<Env>): boolean => {
    const site = c.req.header('sec-fetch-site');
    const origin = c.req.header('origin');
    if (site !== undefined) return ['same-origin', 'none'].includes(site);
    return origin === undefined || hostOf(origin) === c.req.header('host');
  };

  /**
   * Guards against requests that other sites, or code output in a frame, make a browser send. Such a request carries no
   * cookie, so its response must not set a new one either: the visitor would lose all chats.
   */
  const expectOwnPage = (c: Context<Env>): void => {
    const name = (c.req.header('host') ?? '').replace(/:\d+$/, '').toLowerCase();
    if (hosts.length > 0 && !hosts.includes(name))
      refuse('The agent does not serve this host name: see CODEBOX_AGENT_HOSTS.');
    if (!isOwnPage(c)) refuse('Another site sent this request.');
  };

  /** The cookie of a visitor; a new one for a visitor without one. */
  const visitorOf = (c: Context<Env>): string => {
    // Over TLS, the name has a prefix that browsers accept from this very host only: no other host of its domain can
    // set it.
    const isSecure = c.req.header('x-forwarded-proto') === 'https';
    const given = (isSecure ? getCookie(c, cookieName, 'host') : getCookie(c, cookieName)) ?? '';
    if (cookiePattern.test(given)) return given;
    const fresh = randomBytes(32).toString('base64url');
    setCookie(c, cookieName, fresh, {
      path: '/',
      httpOnly: true,
      // Requests that change something are guarded by their origin. Without the cookie, following a link would create a
      // new visitor.
      sameSite: 'Lax',
      maxAge: cookieSeconds,
      ...(isSecure && { prefix: 'host', secure: true }),
    });
    return fresh;
  };

  const byKey = async (c: Context<Env>, key: string): Promise<Owner> => {
    const { tenant, scopes } = await callers.find(key);
    if (scopes) {
      const needed = /\/files(\/|$)/.test(c.req.path) ? 'files' : c.req.method === 'GET' ? 'boxes:read' : 'run';
      if (!scopes.includes(needed)) refuse(`This key lacks the scope ${needed}.`);
    }
    const user = c.req.header('x-codebox-user');
    const named = user === undefined ? null : checkInput(userSchema, user, '/headers/X-CodeBox-User');
    return { tenant, user: named, key, client: clientFor(key) };
  };

  const byCookie = async (c: Context<Env>): Promise<Owner> => {
    if (!isOpen)
      throw new CodeBoxError('unauthorized', `Send an API key as Authorization: Bearer or X-API-Key${keyMistake(c)}.`);
    expectOwnPage(c);
    const user = `visitor-${sha256(visitorOf(c)).slice(0, 32)}`;
    return { tenant: (await callers.find(undefined)).tenant, user, key: undefined, client: clientFor(undefined) };
  };

  const identify = async (c: Context<Env>): Promise<Owner> => {
    const key = givenKey(c);
    return key === undefined ? await byCookie(c) : await byKey(c, key);
  };

  return {
    /** Middleware for all endpoints with an owner; it sets `c.get('owner')`. */
    middleware: (async (c, next) => {
      c.set('owner', await identify(c));
      await next();
    }) satisfies MiddlewareHandler<Env>,

    /** Sets the cookie of a browser that opens the page, before its first requests arrive at the same time. */
    greet(c: Context<Env>): void {
      if (isOpen && isOwnPage(c)) visitorOf(c);
    },
  };
};

export type Owners = ReturnType<typeof createOwners>;

const hostOf = (origin: string): string => {
  try {
    return new URL(origin).host;
  } catch {
    return '';
  }
};
