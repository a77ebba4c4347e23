import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { CodeBoxError } from '#contract';
import { createPeer, type Peer } from '../../../websockets/peer.ts';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { connectToBox } from './socket.ts';

const handshakeMs = 10_000;
/** Above the longest message of a box server. */
const maxMessageBytes = 256 * 1024;

/** The size of a screen, in characters. */
export interface ScreenSize {
  cols: number;
  rows: number;
}

/**
 * Opens the WebSocket of one terminal of a box, which is first resized to `size`. Throws `not_found` for a terminal that has ended, and
 * `unavailable` when the box does not respond.
 */
export const attachTerminal = async (endpoint: Endpoint, id: string, size?: ScreenSize): Promise<Peer> => {
  const socket = await connectToBox(endpoint);
  const query = size ? `?cols=${size.cols}&rows=${size.rows}` : '';
  const ws = new WebSocket(`ws://localhost/codebox/terminals/${id}/socket${query}`, {
    createConnection: () => socket,
    headers: { [tokenHeader]: endpoint.token },
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    handshakeTimeout: handshakeMs,
  });
  return await new Promise((attached, failed) => {
    ws.on('error', (cause) => {
      socket.destroy();
      failed(new CodeBoxError('unavailable', 'The box does not respond.', { cause, retryAfterSeconds: 1 }));
    });
    ws.once('unexpected-response', (_request, response: IncomingMessage) => {
      socket.destroy();
      failed(
        response.statusCode === 404
          ? new CodeBoxError('not_found', 'There is no such terminal.')
          : new CodeBoxError('unavailable', 'The box could not handle the request.', { cause: response.statusCode }),
      );
    });
    ws.once('open', () => {
      // The first messages wait until the peer is received from.
      ws.pause();
      attached(createPeer(ws));
    });
  });
};
