import type { IncomingMessage } from 'node:http';
import { confineCookie } from './cookie.ts';
import { type HeaderPair, hopByHop, namedByConnection, toPairs } from './header-pairs.ts';
import { confineLocation } from './location.ts';
import type { Target } from './target.ts';

/**
 * A page below the gateway's own address shares its origin with the API and with the pages of all other boxes. Sandboxed without
 * `allow-same-origin`, it gets an opaque origin: it can read neither cookies nor responses of the gateway.
 */
const sandbox = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

/** Headers with which one response would affect others of its origin, or other hosts of its domain. */
const affectsOthers = new Set(['alt-svc', 'clear-site-data', 'nel', 'report-to', 'set-cookie2']);
/** Headers that would affect the gateway's origin, where the server shares it. */
const affectsOrigin = new Set(['reporting-endpoints', 'service-worker-allowed', 'strict-transport-security']);

/**
 * Returns the headers of a server's response to a request for `host`, as alternating names and values, with cookies and redirects confined
 * to the server's own prefix or host.
 */
export const responseHeaders = (head: IncomingMessage, target: Target, host: string, requestId: string): string[] => {
  const sharesOrigin = target.prefix !== '';
  const named = namedByConnection(head.headers.connection);
  const passed = toPairs(head.rawHeaders).flatMap(([name, value]): HeaderPair[] => {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || named.has(key) || affectsOthers.has(key) || key === 'x-request-id') return [];
    if (sharesOrigin && affectsOrigin.has(key)) return [];
    if (key === 'location') return [[name, confineLocation(value, target, host)]];
    if (key !== 'set-cookie') return [[name, value]];
    const cookie = confineCookie(value, target.prefix);
    return cookie === undefined ? [] : [[name, cookie]];
  });
  // Browsers enforce this policy together with any policy of the server.
  const policy: HeaderPair[] = sharesOrigin ? [['Content-Security-Policy', sandbox]] : [];
  return [...passed, ...policy, ['X-Request-Id', requestId]].flat();
};
