import type { IncomingMessage } from 'node:http';
import { CodeBoxError } from '#contract';
import { isOwnCookie } from './cookie.ts';
import { type HeaderPair, hopByHop, namedByConnection, toPairs } from './header-pairs.ts';
import { isSecure } from './scheme.ts';
import type { Target } from './target.ts';

/** Headers that are not forwarded: credentials of CodeBox, and headers that the gateway sets itself. */
const withheld = new Set([
  'authorization',
  'x-api-key',
  'expect',
  'host',
  'content-length',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-proto',
  'x-forwarded-server',
  'x-real-ip',
  'x-request-id',
]);

/**
 * Returns the headers for a server in a box, as alternating names and values in their original form: those of the caller, without
 * credentials and hop-by-hop headers, and with the gateway's own forwarding headers in place of the caller's. Exactly one framing header
 * of the body is forwarded. Throws `invalid_request` for a transfer coding other than chunked.
 */
export const requestHeaders = (incoming: IncomingMessage, target: Target, requestId: string): string[] => {
  const named = namedByConnection(incoming.headers.connection);
  const passed = toPairs(incoming.rawHeaders).flatMap(([name, value]): HeaderPair[] => {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || withheld.has(key) || named.has(key)) return [];
    if (key !== 'cookie') return [[name, value]];
    const cookies = withoutOurs(value);
    return cookies === '' ? [] : [[name, cookies]];
  });
  const host = incoming.headers.host ?? '';
  const own: HeaderPair[] = [
    ['Host', host],
    ['X-Forwarded-For', incoming.socket.remoteAddress ?? 'unknown'],
    ['X-Forwarded-Host', host],
    ['X-Forwarded-Proto', isSecure(incoming) ? 'https' : 'http'],
    ...(target.prefix === '' ? [] : [['X-Forwarded-Prefix', target.prefix] satisfies HeaderPair]),
    ['X-Request-Id', requestId],
    ...framing(incoming),
  ];
  return [...own, ...passed].flat();
};

/** Returns the framing header of the body: its length, or chunked; none without a body. */
const framing = ({ headers }: IncomingMessage): HeaderPair[] => {
  const coding = headers['transfer-encoding'];
  if (coding === undefined) {
    const length = headers['content-length'];
    return length === undefined ? [] : [['Content-Length', length]];
  }
  if (coding.trim().toLowerCase() === 'chunked') return [['Transfer-Encoding', 'chunked']];
  const detail = 'must be chunked';
  throw new CodeBoxError('invalid_request', 'This transfer coding is not supported; use chunked.', {
    errors: [{ pointer: '/headers/Transfer-Encoding', detail }],
  });
};

const withoutOurs = (cookies: string): string =>
  cookies
    .split(';')
    .filter((cookie) => !isOwnCookie(cookie))
    .join(';')
    .trim();
