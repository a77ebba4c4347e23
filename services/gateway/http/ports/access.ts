import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { givenKey, keyMistake } from '../../../http/endpoints/given-key.ts';
import type { OpenRequests } from '../../../http/server/open-requests.ts';
import { type PortSessions, portSessionSeconds } from '../../boxes/reach/port-sessions.ts';
import type { Tickets } from '../../boxes/reach/tickets.ts';
import { type Admission, admit, keyNeeded, requireScope } from '../admission/admission.ts';
import { keyId } from '../admission/auth.ts';
import type { KeyCheck, KnownCaller } from '../admission/key-check.ts';
import type { RequestRates } from '../admission/request-rates.ts';
import type { Env } from '../env.ts';
import { ownCookie, ownCookies } from './cookie.ts';
import { isSecure } from './scheme.ts';
import type { Target } from './target.ts';

export interface PortAccessOptions {
  keys: Pick<KeyCheck, 'still'>;
  admission: Pick<Admission, 'byKey' | 'byTicket'>;
  rates: Pick<RequestRates, 'count'>;
  openRequests: OpenRequests;
  tickets: Pick<Tickets, 'redeem'>;
  sessions: PortSessions;
}

/** How a request was admitted. */
export type Access = 'key' | 'session' | 'ticket';

/** The most session cookies to try: pages of other hosts may have set some of the same name. */
const maxCookies = 5;
const ticketPair = /^ticket=(tkt_[\w-]{43})$/;

/** Removes a ticket from the query of a target; the rest of the path is unchanged. */
export const splitTicket = (target: Target): { target: Target; ticket: string | undefined } => {
  const at = target.path.indexOf('?');
  if (at < 0) return { target, ticket: undefined };
  const pairs = target.path.slice(at + 1).split('&');
  const ticket = pairs.flatMap((pair) => ticketPair.exec(pair)?.[1] ?? [])[0];
  if (ticket === undefined) return { target, ticket };
  const rest = pairs.filter((pair) => !ticketPair.test(pair)).join('&');
  return { target: { ...target, path: target.path.slice(0, at) + (rest === '' ? '' : `?${rest}`) }, ticket };
};

/**
 * Admits requests for a port: by a key, a browser session for this port, or a ticket for the box. A ticket in the URL of a page becomes a
 * session. Throws the 401 errors of admission, and `forbidden` for requests that another page makes a browser send, or for a key without
 * the scope `run`.
 */
export const createPortAccess = ({ keys, admission, rates, openRequests, tickets, sessions }: PortAccessOptions) => {
  const callerOfSession = async (
    incoming: IncomingMessage,
    { box, port }: Target,
  ): Promise<KnownCaller | undefined> => {
    for (const token of ownCookies(incoming.headers.cookie).slice(0, maxCookies)) {
      const caller = await keys.still(await sessions.callerOf(token, box, port));
      if (caller) return caller;
    }
    return undefined;
  };

  const recognize = async (
    c: Context<Env>,
    incoming: IncomingMessage,
    target: Target,
    ticket: string | undefined,
  ): Promise<{ way: Access; caller: KnownCaller }> => {
    const key = givenKey(c) ?? '';
    // Keys in another format are meant for the server in the box, and are not CodeBox credentials.
    const isForeign = keyId(key) === undefined;
    if (isForeign && ticket !== undefined)
      return { way: 'ticket', caller: await admission.byTicket(c, await tickets.redeem(ticket, target.box)) };
    const caller = isForeign ? await callerOfSession(incoming, target) : undefined;
    if (!caller)
      return {
        way: 'key',
        caller: await admission.byKey(c, givenKey(c), { needed: `${keyNeeded}${keyMistake(c)}`, isForeign }),
      };
    if (!isOwnPage(incoming))
      throw new CodeBoxError('forbidden', 'In a browser, only pages of this port may send requests to it.');
    admit(c, caller);
    return { way: 'session', caller };
  };

  return {
    /** Admits the request, counts it for its tenant, and returns how it was admitted. Throws `quota_exceeded` when none is left. */
    async admit(
      c: Context<Env>,
      incoming: IncomingMessage,
      target: Target,
      ticket: string | undefined,
    ): Promise<Access> {
      const { way, caller } = await recognize(c, incoming, target, ticket);
      requireScope(c, 'run');
      openRequests(c, caller.tenantId);
      await rates.count(c, caller);
      return way;
    },

    /** Responds to a page request with a ticket: sets a session cookie for this port and redirects to the URL without the ticket. */
    async open(c: Context<Env>, incoming: IncomingMessage, target: Target): Promise<Response> {
      const token = await sessions.create(
        { tenantId: c.get('tenant'), keyId: c.get('keyId') },
        target.box,
        target.port,
      );
      const cookie = ownCookie(token, target.prefix, isSecure(incoming), portSessionSeconds);
      // The host is included because a path of the server may begin with two slashes, which alone would name another host.
      const location = target.prefix === '' ? `//${incoming.headers.host}${target.path}` : target.prefix + target.path;
      const headers = { Location: location, 'Set-Cookie': cookie, 'Cache-Control': 'no-store' };
      return c.body(null, 303, { ...headers, 'Referrer-Policy': 'no-referrer' });
    },
  };
};

export type PortAccess = ReturnType<typeof createPortAccess>;

/**
 * Whether a request comes from the user's navigation or from a page of this port. Hosts of one domain count as one site, so SameSite alone
 * does not prevent the page of another box from using the cookie.
 */
const isOwnPage = ({ headers, method }: IncomingMessage): boolean => {
  const site = headers['sec-fetch-site'];
  const isNavigation = headers['sec-fetch-mode'] === 'navigate' && (method === 'GET' || method === 'HEAD');
  if (site !== undefined && site !== 'same-origin' && site !== 'none' && !isNavigation) return false;
  const origin = headers.origin;
  return origin === undefined || isNavigation || origin.replace(/^https?:\/\//, '') === headers.host;
};
