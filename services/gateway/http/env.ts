import type { HttpBindings } from '@hono/node-server';
import type { Logger } from 'pino';
import type { KeyScope } from '#contract';
import type { Progress } from './idempotency.ts';
import type { Upgrade } from './upgrade.ts';

/** What middleware leaves for handlers, and the raw sockets of Node. */
export interface Env {
  // Absent where a request does not come from a socket.
  Bindings: Partial<HttpBindings> & {
    /** There when the request asks for a WebSocket. */
    upgrade?: Upgrade;
  };
  Variables: {
    requestId: string;
    log: Logger;
    tenant: string;
    /** The key that let the request in, also where a ticket or a cookie stood for it. */
    keyId: string;
    /** What the key may do; null for everything. */
    scopes: readonly KeyScope[] | null;
    /** The route's pattern, for logs and metrics: never the path, which has ids in it. */
    route: string;
    /** Set when the response is a stream of events, which goes on behind it. */
    isStream?: true;
    /** Set while a request carries an Idempotency-Key: is told what it may have started, and where that can be read. */
    progress?: Progress;
  };
}
