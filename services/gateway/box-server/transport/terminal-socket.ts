import type { Peer } from '../../../websockets/peer.ts';
import { openBoxWebSocket } from './box-websocket.ts';
import type { Endpoint } from './endpoint.ts';

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
export const attachTerminal = (endpoint: Endpoint, id: string, size?: ScreenSize): Promise<Peer> => {
  const query = size ? `?cols=${size.cols}&rows=${size.rows}` : '';
  const path = `codebox/terminals/${id}/socket${query}`;
  return openBoxWebSocket(endpoint, { path, maxMessageBytes, missing: 'There is no such terminal.' });
};
