import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import type { Logger } from 'pino';

/** A request that asks for another protocol. Its handler takes the connection over, or answers it like any other. */
export interface Upgrade {
  /**
   * The connection, and what came behind the head of the request. From now on they are the caller's, who also sees to errors
   * and to the end; what the handler answers is not sent. The gateway cuts the connection when it stops and its time is over.
   */
  take(): { socket: Socket; head: Buffer };
  isTaken(): boolean;
}

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
