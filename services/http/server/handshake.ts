import type { Context } from 'hono';
import { WebSocketServer } from 'ws';
import { CodeBoxError } from '#contract';
import { createPeer, type Peer } from '../../websockets/peer.ts';
import type { HttpEnv } from '../env.ts';

const keyPattern = /^[+/0-9A-Za-z]{22}==$/;
const version = '13';
/** A piece of a message may keep more in memory than its own bytes. Clients make pieces of some KiB. */
const maxFragments = 4096;

/**
 * Throws `upgrade_required` unless the request can become a WebSocket; call it before anything is done for the request.
 */
export const expectHandshake = <E extends HttpEnv>(c: Context<E>): void => {
  if (!c.env?.upgrade)
    throw new CodeBoxError('upgrade_required', 'This path is a WebSocket: send Upgrade: websocket and its key.');
  const faults = [
    ...(keyPattern.test(c.req.header('sec-websocket-key') ?? '') ? [] : [{ name: 'Key', detail: 'is not a nonce' }]),
    ...(c.req.header('sec-websocket-version') === version ? [] : [{ name: 'Version', detail: `must be ${version}` }]),
  ].map(({ name, detail }) => ({ pointer: `/headers/Sec-WebSocket-${name}`, detail }));
  if (faults.length > 0)
    throw new CodeBoxError('invalid_request', 'This is not a WebSocket handshake.', { errors: faults });
};

export interface PeerLimits {
  /** A longer message ends the connection with 1009. */
  maxMessageBytes: number;
  /** The subprotocol to select, which the client has offered; by default the first one that it offers. */
  protocol?: string | undefined;
}

/**
 * Completes the handshake, after `expectHandshake`. `serve` receives the client before this returns; throws when the
 * client has left meanwhile. Nothing is compressed.
 */
export const acceptPeer = <E extends HttpEnv>(
  c: Context<E>,
  { maxMessageBytes, protocol }: PeerLimits,
  serve: (peer: Peer) => void,
): Response => {
  const { upgrade, incoming } = c.env ?? {};
  if (!upgrade || !incoming) throw new CodeBoxError('upgrade_required', 'This path is a WebSocket.');
  const { socket, head } = upgrade.take();
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    maxFragments,
    ...(protocol !== undefined && { handleProtocols: () => protocol }),
  });
  let isServed = false;
  server.handleUpgrade(incoming, socket, head, (ws) => {
    const room = c.get('messageRoom');
    serve(createPeer(ws, { ...(room && { memory: { socket, room } }) }));
    isServed = true;
  });
  if (!isServed) throw new CodeBoxError('invalid_request', 'The client left during the handshake.');
  // Nobody receives this response: the handshake is complete.
  return c.body(null);
};
