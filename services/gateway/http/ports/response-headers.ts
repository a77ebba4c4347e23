import type { IncomingMessage } from 'node:http';
import { confineCookie } from './cookie.ts';
import { type HeaderPair, hopByHop, namedByConnection, toPairs } from './header-pairs.ts';
import { confineLocation } from './location.ts';
import type { Target } from './target.ts';

/**
 * A page below the gateway's own address shares its origin with the API and with the pages of all other boxes. Sandboxed
 * without `allow-same-origin` it gets an origin of its own that nothing else has: it can read neither cookies nor answers of
 * the gateway.
 */
const sandbox = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

/** What one answer could decide for all others of its origin, or for the hosts beside it. */
const forOthersToo = new Set(['alt-svc', 'clear-site-data', 'nel', 'report-to', 'set-cookie2']);
/** The same, where the origin is the gateway's. */
const forTheOrigin = new Set(['reporting-endpoints', 'service-worker-allowed', 'strict-transport-security']);

/** The headers of a server's answer to a request for `host` as they go out: names and values in turn, as they came, within the server's own place. */
export const responseHeaders = (head: IncomingMessage, target: Target, host: string, requestId: string): string[] => {
  const sharesOrigin = target.prefix !== '';
  const named = namedByConnection(head.headers.connection);
  const passed = toPairs(head.rawHeaders).flatMap(([name, value]): HeaderPair[] => {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || named.has(key) || forOthersToo.has(key) || key === 'x-request-id') return [];
    if (sharesOrigin && forTheOrigin.has(key)) return [];
    if (key === 'location') return [[name, confineLocation(value, target, host)]];
    if (key !== 'set-cookie') return [[name, value]];
    const cookie = confineCookie(value, target.prefix);
    return cookie === undefined ? [] : [[name, cookie]];
  });
  // Beside a policy of the server's own both hold.
  const policy: HeaderPair[] = sharesOrigin ? [['Content-Security-Policy', sandbox]] : [];
  return [...passed, ...policy, ['X-Request-Id', requestId]].flat();
};
