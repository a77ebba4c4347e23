import type { HttpBindings } from '@hono/node-server';
import type { Logger } from 'pino';
import type { Upgrade } from './upgrade.ts';

/** What every server here leaves for its handlers, and the raw sockets of Node. */
export interface HttpEnv {
  // Absent where a request does not come from a socket.
  Bindings: Partial<HttpBindings> & {
    /** There when the request asks for a WebSocket. */
    upgrade?: Upgrade;
  };
  Variables: {
    requestId: string;
    log: Logger;
    /** The route's pattern, for logs and metrics: never the path, which has ids in it. */
    route: string;
    /** Set when the response is a stream of events, which goes on behind it. */
    isStream?: true;
  };
}
