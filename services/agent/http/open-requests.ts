import type { Context, Next } from 'hono';
import { createOpenRequests } from '../../http/server/open-requests.ts';
import type { Env } from './env.ts';

/** The number of the agent's connections that one owner may use. */
const maxPerOwner = 1000;

/**
 * Middleware that limits the requests that an owner has open at once. The users of a tenant count together, as a key may name any
 * number of users; each visitor counts alone. Throws `too_many_requests`.
 */
export const limitOpenRequests = () => {
  const admit = createOpenRequests(maxPerOwner);
  return async (c: Context<Env>, next: Next): Promise<void> => {
    const { tenant, user, key } = c.get('owner');
    admit(c, key === undefined ? `${tenant} ${user}` : tenant);
    await next();
  };
};
