import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import type { Env } from '../env.ts';

const adminPath = /^\/(v1\/admin(\/|$)|metrics$)/;
/** Documentation and health checks are served on both ports. */
const sharedPath = /^\/(healthz|readyz|openapi\.json|(?:docs|problems)(\/.*)?)$/;

/**
 * With an admin port, the admin API and the metrics are served on that port only, and nothing else is. Without one, everything is on one
 * port. A surface that claims whole hosts is not served on the admin port.
 */
export const createAdminPort = (adminPort: number | undefined, hasOwnPaths: (c: Context<Env>) => boolean) => {
  const isOnAdminPort = (c: Context<Env>) => adminPort !== undefined && c.env?.incoming?.socket.localPort === adminPort;

  const separate: MiddlewareHandler<Env> = async (c, next) => {
    const path = c.req.path;
    if (adminPort === undefined) return await next();
    const isAdmin = !hasOwnPaths(c) && adminPath.test(path);
    const isShared = !hasOwnPaths(c) && sharedPath.test(path);
    if (isShared || isAdmin === isOnAdminPort(c)) return await next();
    throw new CodeBoxError('not_found', 'This path is not served on this port.');
  };

  return {
    separate,
    /** Runs a handler for requests on every port but the admin port. */
    exceptOnAdminPort:
      (handler: MiddlewareHandler<Env>): MiddlewareHandler<Env> =>
      (c, next) =>
        isOnAdminPort(c) ? next() : handler(c, next),
  };
};
