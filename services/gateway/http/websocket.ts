import type { Context } from 'hono';
import { WebSocketServer } from 'ws';
import { CodeBoxError } from '#contract';
import { createPeer, type Peer } from '../box-server/peer.ts';
import type { Env } from './env.ts';
import type { OpenSockets } from './open-sockets.ts';

export interface AcceptOptions {
  /** A longer message ends the connection with 1009. */
  maxMessageBytes: number;
  /** Throws `gone` when there is no reason to stay any more. Asked now and then, as is whether the key is still valid. */
  check?: () => Promise<unknown>;
}

const keyPattern = /^[+/0-9A-Za-z]{22}==$/;
const version = '13';

/** The WebSockets that this gateway speaks itself. Nothing is compressed; silent clients are found by pings, slow ones are told so. */
export const createWebSockets = (openSockets: OpenSockets) => {
  return {
    /**
     * Throws `upgrade_required` unless the request can become a WebSocket, and `too_many_requests` when its tenant has enough
     * of them; to be asked before anything is done for it.
     */
    expect(c: Context<Env>): void {
      if (!c.env?.upgrade)
        throw new CodeBoxError('upgrade_required', 'This path is a WebSocket: send Upgrade: websocket and its key.');
      const faults = [
        ...(keyPattern.test(c.req.header('sec-websocket-key') ?? '')
          ? []
          : [{ name: 'Key', detail: 'is not a nonce' }]),
        ...(c.req.header('sec-websocket-version') === version
          ? []
          : [{ name: 'Version', detail: `must be ${version}` }]),
      ].map(({ name, detail }) => ({ pointer: `/headers/Sec-WebSocket-${name}`, detail }));
      if (faults.length > 0)
        throw new CodeBoxError('invalid_request', 'This is not a WebSocket handshake.', { errors: faults });
      openSockets.expectRoom(c);
    },

    /** Lets a message of an accepted one in as if it were a request of its own; throws what refuses that. */
    countMessage: (c: Context<Env>): Promise<void> => openSockets.countMessage(c),

    /**
     * Answers the handshake; `expect` comes first. `serve` gets the client before this returns; it throws for a client that
     * has left meanwhile.
     */
    accept(c: Context<Env>, { maxMessageBytes, check }: AcceptOptions, serve: (peer: Peer) => void): Response {
      const { upgrade, incoming } = c.env;
      if (!upgrade || !incoming) throw new CodeBoxError('upgrade_required', 'This path is a WebSocket.');
      const { socket, head } = upgrade.take();
      const server = new WebSocketServer({
        noServer: true,
        clientTracking: false,
        perMessageDeflate: false,
        maxPayload: maxMessageBytes,
      });
      let isServed = false;
      server.handleUpgrade(incoming, socket, head, (ws) => {
        const peer = createPeer(ws);
        openSockets.keep(c, peer, check);
        serve(peer);
        isServed = true;
      });
      if (!isServed) throw new CodeBoxError('invalid_request', 'The client left during the handshake.');
      // Nobody gets this: the handshake has been answered.
      return c.body(null);
    },
  };
};

export type WebSockets = ReturnType<typeof createWebSockets>;
