import type { Context, Next } from 'hono';
import { createOpenRequests } from '../../http/server/open-requests.ts';
import type { Env } from './env.ts';

/** The number of the agent's connections that one owner may use. */
const maxPerOwner = 1000;

/**
 * The name under which the owner of a request is counted; undefined on a path that needs none. The users of a tenant count together, as a
 * key may name any number of users; each visitor counts alone.
 */
export const callerOf = (c: Context<Env>): string | undefined => {
  const owner = c.get('owner') as Env['Variables']['owner'] | undefined;
  return owner && (owner.key === undefined ? `${owner.tenant} ${owner.user}` : owner.tenant);
};

/** Middleware that limits the requests that an owner has open at once. Throws `too_many_requests`. */
export const limitOpenRequests = () => {
  const admit = createOpenRequests(maxPerOwner);
  return async (c: Context<Env>, next: Next): Promise<void> => {
    admit(c, callerOf(c) ?? '');
    await next();
  };
};
