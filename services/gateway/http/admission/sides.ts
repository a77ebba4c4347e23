import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import type { Env } from '../env.ts';

const adminPath = /^\/(v1\/admin(\/|$)|metrics$)/;
/** What describes the gateway and tells of its health is on both. */
const sharedPath = /^\/(healthz|readyz|openapi\.json|(?:docs|problems)(\/.*)?)$/;

/**
 * With a port of its own the admin API is there, with the metrics, and nowhere else; nothing else is there. Without one all is on
 * one port. A surface with hosts of its own has all paths of them, and is not on the admin port.
 */
export const createSides = (adminPort: number | undefined, hasOwnPaths: (c: Context<Env>) => boolean) => {
  const isAdminSide = (c: Context<Env>) => adminPort !== undefined && c.env?.incoming?.socket.localPort === adminPort;

  const separate: MiddlewareHandler<Env> = async (c, next) => {
    const path = c.req.path;
    if (adminPort === undefined) return await next();
    const isAdmin = !hasOwnPaths(c) && adminPath.test(path);
    const isShared = !hasOwnPaths(c) && sharedPath.test(path);
    if (isShared || isAdmin === isAdminSide(c)) return await next();
    throw new CodeBoxError('not_found', 'There is nothing at this path on this port.');
  };

  return {
    separate,
    /** What only the other port serves. */
    exceptAdmin:
      (handler: MiddlewareHandler<Env>): MiddlewareHandler<Env> =>
      (c, next) =>
        isAdminSide(c) ? next() : handler(c, next),
  };
};
