import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { createTally } from '../../waiting/tally.ts';
import type { HttpEnv } from '../env.ts';

/**
 * Counts the requests that each caller has open at once: streams, responses that are waited for, uploads. Throws `too_many_requests` for
 * one more than `most`, so that no caller uses up the connections and the memory of the others.
 */
export const createOpenRequests = (most: number) => {
  const open = createTally();
  return <E extends HttpEnv>(c: Context<E>, caller: string): void => {
    if (open.of(caller) >= most)
      throw new CodeBoxError('too_many_requests', `${most} requests are open.`, { retryAfterSeconds: 5 });
    const { incoming, outgoing, upgrade } = c.env ?? {};
    // The response of an upgraded request never ends; its socket does.
    const connection = upgrade ? incoming?.socket : outgoing;
    if (connection && !connection.destroyed) connection.once('close', open.add(caller));
  };
};

export type OpenRequests = ReturnType<typeof createOpenRequests>;
