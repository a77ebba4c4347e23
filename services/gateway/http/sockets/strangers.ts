import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { asCodeBoxError } from '../../../http/problems/problem.ts';
import { acceptPeer, expectHandshake, type PeerLimits } from '../../../http/server/handshake.ts';
import { createTally } from '../../../waiting/tally.ts';
import type { Peer } from '../../../websockets/peer.ts';
import type { AddressOf } from '../admission/address.ts';
import { type Admission, keyNeeded, type RouteScope } from '../admission/admission.ts';
import type { OpenSockets } from '../admission/open-sockets.ts';
import type { Env } from '../env.ts';

/** Handles one message of a client. */
export type Handle = Parameters<Peer['receive']>[0];

export interface StrangerOptions extends PeerLimits {
  scope: RouteScope;
  /** Returns the key in the first message; undefined when there is none. */
  keyOf: (first: Buffer, isBinary: boolean) => string | undefined;
  /** Begins to serve the client, which is admitted, and resolves with what handles its further messages. */
  serve: (client: Peer) => Promise<Handle>;
  /** Closes the connection of a client that is not admitted or cannot be served. */
  refuse: (client: Peer, error: CodeBoxError) => void;
}

/**
 * How long a client may take to send its key, and how many may be that far at once, each with a whole message at most. One address gets
 * a part of them, so that it cannot keep all others out.
 */
const waitMs = 10_000;
const maxWaiting = 100;
const maxPerAddress = 25;

/** Clients that cannot send a key with their handshake: they send it in their first message. Until then nothing is done for them. */
export const createStrangers = (
  admission: Pick<Admission, 'admit'>,
  openSockets: OpenSockets,
  addressOf: AddressOf,
) => {
  let waiting = 0;
  const addresses = createTally();

  /** Admits a request by this key, as `Admission.admit` does. */
  const admit = (c: Context<Env>, key: string | undefined, scope: RouteScope): Promise<void> => {
    const credentialOf = () => (key === undefined ? undefined : { key });
    return admission.admit(c, { credentialOf, needed: () => keyNeeded }, scope);
  };

  return {
    admit,

    /** Completes the handshake. Throws `upgrade_required`, and `too_many_requests` when too many clients have not sent their key yet. */
    accept(c: Context<Env>, { scope, keyOf, serve, refuse, ...limits }: StrangerOptions): Response {
      expectHandshake(c);
      const address = addressOf(c);
      if (waiting >= maxWaiting || addresses.of(address) >= maxPerAddress)
        throw new CodeBoxError('too_many_requests', 'Too many clients have not sent a key yet.', {
          retryAfterSeconds: 5,
        });
      return acceptPeer(c, limits, (client) => {
        const end = () => refuse(client, new CodeBoxError('unauthorized', 'No key was sent in time.'));
        const late = setTimeout(end, waitMs);
        waiting += 1;
        const leave = addresses.add(address);
        let isWaiting = true;
        const release = () => {
          clearTimeout(late);
          if (!isWaiting) return;
          isWaiting = false;
          waiting -= 1;
          leave();
        };
        client.closed.addEventListener('abort', release, { once: true });
        let handle: Handle | undefined;
        const begin = async (first: Buffer, isBinary: boolean) => {
          release();
          try {
            await admit(c, keyOf(first, isBinary), scope);
            openSockets.expectRoom(c);
            openSockets.keep(c, client);
            handle = await serve(client);
          } catch (thrown) {
            const error = asCodeBoxError(thrown);
            if (error.code === 'internal') c.get('log').error({ err: thrown }, 'a WebSocket could not be served');
            refuse(client, error);
          }
        };
        client.receive((data, isBinary) => (handle ? handle(data, isBinary) : begin(data, isBinary)));
      });
    },
  };
};
