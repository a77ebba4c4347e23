import type { Context, Next } from 'hono';
import { CodeBoxError } from '#contract';
import { createTally } from '../../http/tally.ts';
import type { Env } from './env.ts';

/** How many of the agent's connections one owner may use. */
const maxPerOwner = 1000;

/**
 * Middleware that limits the requests that an owner has open at once: streams, pending answers, uploads. The users of a
 * tenant count together, as a key may name any number of users; each visitor counts alone. Throws `too_many_requests`.
 */
export const createOpenRequests = () => {
  const open = createTally();
  return async (c: Context<Env>, next: Next): Promise<void> => {
    const { tenant, user, key } = c.get('owner');
    const owner = key === undefined ? `${tenant} ${user}` : tenant;
    if (open.of(owner) >= maxPerOwner)
      throw new CodeBoxError('too_many_requests', `${maxPerOwner} requests are open.`, { retryAfterSeconds: 5 });
    const { incoming, outgoing, upgrade } = c.env ?? {};
    // The response of an upgraded request never ends; its socket does.
    const connection = upgrade ? incoming?.socket : outgoing;
    if (connection && !connection.destroyed) connection.once('close', open.add(owner));
    await next();
  };
};
