import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { CodeBoxError } from '#contract';
import { createPeer, type Peer } from '../../../websockets/peer.ts';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { connectToBox } from './socket.ts';

const handshakeMs = 10_000;
const readyMs = 10_000;

export interface BoxWebSocketOptions {
  /** The path with its query, such as `codebox/terminals/…`. */
  path: string;
  /** Above the longest message of the box server. */
  maxMessageBytes: number;
  protocols?: string[];
  /** See PeerOptions. */
  pingMs?: number;
  /** Whether to wait until the server reads messages. */
  untilReady?: boolean;
  /** The text of the error for a 404. */
  missing: string;
}

/** Opens a WebSocket of a box server. Throws `not_found`, and `unavailable` when the box does not respond. */
export const openBoxWebSocket = async (
  endpoint: Endpoint,
  { path, maxMessageBytes, protocols = [], pingMs, untilReady = false, missing }: BoxWebSocketOptions,
): Promise<Peer> => {
  const socket = await connectToBox(endpoint);
  const ws = new WebSocket(`ws://localhost/${path}`, protocols, {
    createConnection: () => socket,
    headers: { [tokenHeader]: endpoint.token },
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    handshakeTimeout: handshakeMs,
  });
  return await new Promise((opened, failed) => {
    const late = setTimeout(() => ws.terminate(), handshakeMs + readyMs);
    const fail = (cause: unknown) => {
      clearTimeout(late);
      socket.destroy();
      failed(new CodeBoxError('unavailable', 'The box does not respond.', { cause, retryAfterSeconds: 1 }));
    };
    ws.on('error', fail);
    ws.once('close', fail);
    ws.once('unexpected-response', (_request, response: IncomingMessage) => {
      clearTimeout(late);
      socket.destroy();
      failed(
        response.statusCode === 404
          ? new CodeBoxError('not_found', missing)
          : new CodeBoxError('unavailable', 'The box could not handle the request.', { cause: response.statusCode }),
      );
    });
    const done = () => {
      clearTimeout(late);
      // The first messages wait until the peer is received from.
      ws.pause();
      opened(createPeer(ws, pingMs === undefined ? {} : { pingMs }));
    };
    ws.once('open', () => {
      if (!untilReady) return done();
      // A server that is not ready yet does not respond to pings.
      ws.once('pong', done);
      ws.ping();
    });
  });
};
