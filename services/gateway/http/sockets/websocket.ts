import type { Context } from 'hono';
import { acceptPeer, expectHandshake } from '../../../http/handshake.ts';
import type { Peer } from '../../../websockets/peer.ts';
import type { OpenSockets } from '../admission/open-sockets.ts';
import type { Env } from '../env.ts';

export interface AcceptOptions {
  /** A longer message ends the connection with 1009. */
  maxMessageBytes: number;
  /** Throws `gone` when there is no reason to stay any more. Asked now and then, as is whether the key is still valid. */
  check?: () => Promise<unknown>;
}

/** The WebSockets that this gateway speaks itself. Silent clients are found by pings, slow ones are told so. */
export const createWebSockets = (openSockets: OpenSockets) => {
  return {
    /**
     * Throws `upgrade_required` unless the request can become a WebSocket, and `too_many_requests` when its tenant has enough
     * of them; to be asked before anything is done for it.
     */
    expect(c: Context<Env>): void {
      expectHandshake(c);
      openSockets.expectRoom(c);
    },

    /** Lets a message of an accepted one in as if it were a request of its own; throws what refuses that. */
    countMessage: (c: Context<Env>): Promise<void> => openSockets.countMessage(c),

    /** Answers the handshake; `expect` comes first. `serve` gets the client before this returns. */
    accept: (c: Context<Env>, { maxMessageBytes, check }: AcceptOptions, serve: (peer: Peer) => void): Response =>
      acceptPeer(c, maxMessageBytes, (peer) => {
        openSockets.keep(c, peer, check);
        serve(peer);
      }),
  };
};

export type WebSockets = ReturnType<typeof createWebSockets>;
