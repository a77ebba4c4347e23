import { addAbortListener } from 'node:events';
import type { Context, Next } from 'hono';
import { CodeBoxError } from '#contract';
import { createTally } from '../../../waiting/tally.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { Env } from '../env.ts';
import { requireCaller } from './admission.ts';
import type { KeyCheck } from './key-check.ts';
import type { RequestRates } from './request-rates.ts';

export interface OpenSocketsOptions {
  /** Aborted when the gateway begins to stop: connections are closed with 1012, so that clients connect again. */
  stopping: AbortSignal;
  keys: Pick<KeyCheck, 'still'>;
  rates: Pick<RequestRates, 'countMessage'>;
  /** How often the key and the box of an open connection are checked again. */
  checkEveryMs: number;
}

/** A connection that can be ended. */
export type OpenSocket = Pick<Peer, 'closed' | 'close'>;

const maxPerTenant = 1000;

/**
 * The open WebSockets of this gateway: those it serves itself and those it forwards into boxes. Their number per tenant is bounded. A
 * WebSocket outlives its key by at most `checkEveryMs` and closes when the gateway stops; event streams are checked likewise.
 */
export const createOpenSockets = ({ stopping, keys, rates, checkEveryMs }: OpenSocketsOptions) => {
  const open = createTally();

  const closeAtStop = (socket: OpenSocket) => {
    const waiting = addAbortListener(stopping, () =>
      socket.close(closeCodes.restart, 'The gateway is stopping; connect again.'),
    );
    socket.closed.addEventListener('abort', () => waiting[Symbol.dispose](), { once: true });
  };

  const checkAgain = (socket: OpenSocket, check: () => Promise<unknown>) => {
    const timer = setInterval(async () => {
      try {
        await check();
      } catch (error) {
        // Only a definite result closes the connection: an unavailable database comes back.
        const code = error instanceof CodeBoxError ? error.code : undefined;
        if (code === 'gone') socket.close(closeCodes.goingAway, (error as CodeBoxError).message);
        if (code === 'unauthorized') socket.close(closeCodes.refused, 'The key is no longer valid.');
      }
    }, checkEveryMs);
    socket.closed.addEventListener('abort', () => clearInterval(timer), { once: true });
  };

  const callerOf = (c: Context<Env>) => ({ tenantId: c.get('tenant'), keyId: c.get('keyId') });

  /** Cuts the response to a request when its key is no longer valid: the client gets the 401 when it reconnects. */
  const watch = (c: Context<Env>): void => {
    const { outgoing } = c.env ?? {};
    if (c.get('keyId') === undefined || !outgoing || outgoing.destroyed) return;
    const caller = callerOf(c);
    const closed = new AbortController();
    outgoing.once('close', () => closed.abort());
    const stream = { closed: closed.signal, close: () => outgoing.destroy() };
    checkAgain(stream, async () => requireCaller(await keys.still(caller)));
  };

  return {
    /** Throws `too_many_requests` when the tenant of the request has too many WebSockets open. */
    expectRoom(c: Context<Env>): void {
      if (open.of(c.get('tenant')) >= maxPerTenant)
        throw new CodeBoxError('too_many_requests', `${maxPerTenant} WebSockets are open; close some first.`, {
          retryAfterSeconds: 5,
        });
    },

    /**
     * Counts a message as a request of the tenant, against its current limit. Throws `quota_exceeded`, or `unauthorized` when the key
     * behind the connection is no longer valid.
     */
    async countMessage(c: Context<Env>): Promise<void> {
      await rates.countMessage(requireCaller(await keys.still(callerOf(c))));
    },

    /** Registers a new WebSocket until it closes. `check` throws `gone` when the connection has lost its purpose. */
    keep(c: Context<Env>, socket: OpenSocket, check?: () => Promise<unknown>): void {
      if (socket.closed.aborted) return;
      const caller = callerOf(c);
      socket.closed.addEventListener('abort', open.add(caller.tenantId), { once: true });
      closeAtStop(socket);
      checkAgain(socket, async () => {
        requireCaller(await keys.still(caller));
        await check?.();
      });
    },

    watch,

    /** Middleware that watches event streams. */
    async watchStream(c: Context<Env>, next: Next): Promise<void> {
      await next();
      if (c.get('isStream')) watch(c);
    },
  };
};

export type OpenSockets = ReturnType<typeof createOpenSockets>;
