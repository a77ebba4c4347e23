import type { Context, Next } from 'hono';
import { createOpenRequests } from '../../http/server/open-requests.ts';
import { countedName } from '../chats/owner.ts';
import type { Env } from './env.ts';

/** The number of the agent's connections that one owner may use. */
const maxPerOwner = 1000;

/** The name under which the caller is counted; undefined on a path that needs neither an owner nor a ticket. */
export const callerOf = (c: Context<Env>): string | undefined => {
  const owner = c.get('owner') as Env['Variables']['owner'] | undefined;
  return owner ? countedName(owner) : c.get('ticketOf');
};

/** Middleware that limits the requests that an owner has open at once. Throws `too_many_requests`. */
export const limitOpenRequests = () => {
  const admit = createOpenRequests(maxPerOwner);
  return async (c: Context<Env>, next: Next): Promise<void> => {
    admit(c, callerOf(c) ?? '');
    await next();
  };
};
