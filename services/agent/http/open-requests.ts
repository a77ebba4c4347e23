import type { Context, Next } from 'hono';
import { CodeBoxError } from '#contract';
import { createTally } from '../../http/tally.ts';
import type { Env } from './env.ts';

/** Of all the connections that the agent takes an owner gets so many. */
const maxPerOwner = 1000;

/**
 * Middleware that bounds the requests which an owner has open at once: streams, answers that are waited for, bodies on their way. The
 * users of a tenant count together, as a key may name as many as it likes; each visitor counts alone. Throws `too_many_requests`.
 */
export const createOpenRequests = () => {
  const open = createTally();
  return async (c: Context<Env>, next: Next): Promise<void> => {
    const { tenant, user, key } = c.get('owner');
    const owner = key === undefined ? `${tenant} ${user}` : tenant;
    if (open.of(owner) >= maxPerOwner)
      throw new CodeBoxError('too_many_requests', `${maxPerOwner} requests are open.`, { retryAfterSeconds: 5 });
    c.env?.outgoing?.once('close', open.add(owner));
    await next();
  };
};
