import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import type { Logger } from 'pino';
import type { Room } from '../websockets/held-messages.ts';

/** A request for another protocol. Its handler takes over the connection, or responds as to any other request. */
export interface Upgrade {
  /**
   * Returns the connection, and the bytes after the head of the request. From now on the caller owns both, and handles
   * errors and the end; the handler's own response is not sent. The gateway cuts the connection when it stops and the
   * grace period is over.
   */
  take(): { socket: Socket; head: Buffer };
  isTaken(): boolean;
}

/** The variables that every server provides for its handlers, and Node's raw sockets. */
export interface HttpEnv {
  // Absent when a request does not come from a socket.
  Bindings: Partial<HttpBindings> & {
    /** Present when the request asks for a WebSocket. */
    upgrade?: Upgrade;
  };
  Variables: {
    requestId: string;
    log: Logger;
    /** The route's pattern, for logs and metrics: never the path, which contains ids. */
    route: string;
    /** Set when the response is a stream of events, which continues after the handler. */
    isStream?: true;
    /** Counts more bytes of the body that are kept in memory, until the request is over; throws when there is no room for them. */
    holdBody?: (bytes: number) => void;
    /** The memory for the messages of a WebSocket that this request becomes. */
    messageRoom?: Room;
  };
}
