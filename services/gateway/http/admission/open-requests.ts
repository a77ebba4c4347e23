import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { createTally } from '../../../http/tally.ts';
import type { Env } from '../env.ts';

/**
 * Counts the requests that each tenant has open at this gateway: streams, code that is waited for, uploads. Throws
 * `too_many_requests` for one more than `mostPerTenant`, so that no tenant uses up the connections and the memory of the others.
 */
export const createOpenRequests = (mostPerTenant: number) => {
  const open = createTally();
  return (c: Context<Env>, tenant: string): void => {
    if (open.of(tenant) >= mostPerTenant)
      throw new CodeBoxError('too_many_requests', `${mostPerTenant} requests of this tenant are open.`, {
        retryAfterSeconds: 5,
      });
    const { incoming, outgoing, upgrade } = c.env ?? {};
    // The response of an upgraded request never ends; its socket does.
    const connection = upgrade ? incoming?.socket : outgoing;
    if (connection && !connection.destroyed) connection.once('close', open.add(tenant));
  };
};

export type OpenRequests = ReturnType<typeof createOpenRequests>;
