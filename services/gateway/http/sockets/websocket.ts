import type { Context } from 'hono';
import { acceptPeer, expectHandshake, type PeerLimits } from '../../../http/server/handshake.ts';
import type { Peer } from '../../../websockets/peer.ts';
import type { AddressOf } from '../admission/address.ts';
import type { Admission } from '../admission/admission.ts';
import type { OpenSockets } from '../admission/open-sockets.ts';
import type { Env } from '../env.ts';
import { createStrangers } from './strangers.ts';

export interface AcceptOptions extends PeerLimits {
  /** Throws `gone` when the connection has lost its purpose. Called periodically, together with the check of the key. */
  check?: () => Promise<unknown>;
}

/** The WebSockets that this gateway serves itself. Pings detect silent clients; slow clients are disconnected with a reason. */
export const createWebSockets = (
  openSockets: OpenSockets,
  admission: Pick<Admission, 'admit'>,
  addressOf: AddressOf,
) => {
  return {
    strangers: createStrangers(admission, openSockets, addressOf),

    /**
     * Throws `upgrade_required` unless the request can become a WebSocket, and `too_many_requests` when its tenant has too many open
     * ones. Call it before doing anything for the request.
     */
    expect(c: Context<Env>): void {
      expectHandshake(c);
      openSockets.expectRoom(c);
    },

    /** Counts a message of an accepted WebSocket as a request of its own; throws when the tenant has none left. */
    countMessage: (c: Context<Env>): Promise<void> => openSockets.countMessage(c),

    /** Completes the handshake; call `expect` first. `serve` is called with the client before this returns. */
    accept: (c: Context<Env>, { check, ...limits }: AcceptOptions, serve: (peer: Peer) => void): Response =>
      acceptPeer(c, limits, (peer) => {
        openSockets.keep(c, peer, check);
        serve(peer);
      }),
  };
};

export type WebSockets = ReturnType<typeof createWebSockets>;
