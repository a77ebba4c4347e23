import type { IncomingMessage } from 'node:http';
import { CodeBoxError } from '#contract';
import { isOwnCookie } from './cookie.ts';
import { type HeaderPair, hopByHop, namedByConnection, toPairs } from './header-pairs.ts';
import { isSecure } from './scheme.ts';
import type { Target } from './target.ts';

/** Keys of CodeBox, and what only the gateway may say. */
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
 * The headers that a server in a box gets: the caller's, without its keys, without those of the connection, and with what the
 * gateway knows of the caller instead of what the caller says. Names and values in turn, as they came. Exactly one framing of
 * the body goes on. Throws `invalid_request` for a transfer coding other than chunked.
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

/** How the body goes on: as long as announced, or in chunks. None when there is no body. */
const framing = ({ headers }: IncomingMessage): HeaderPair[] => {
  const coding = headers['transfer-encoding'];
  if (coding === undefined) {
    const length = headers['content-length'];
    return length === undefined ? [] : [['Content-Length', length]];
  }
  if (coding.trim().toLowerCase() === 'chunked') return [['Transfer-Encoding', 'chunked']];
  const detail = 'must be chunked';
  throw new CodeBoxError('invalid_request', 'This transfer coding is not known.', {
    errors: [{ pointer: '/headers/Transfer-Encoding', detail }],
  });
};

const withoutOurs = (cookies: string): string =>
  cookies
    .split(';')
    .filter((cookie) => !isOwnCookie(cookie))
    .join(';')
    .trim();
