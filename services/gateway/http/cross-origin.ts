import type { MiddlewareHandler } from 'hono';
import type { Env } from './env.ts';

const methods = 'GET, HEAD, POST, PUT, PATCH, DELETE';

/**
 * Lets pages of any origin read the responses, and responds to their preflight requests. The headers are set on the raw response, because
 * downloads are sent without one of Hono's.
 */
export const permitOrigins: MiddlewareHandler<Env> = async (c, next) => {
  c.env?.outgoing?.setHeader('Access-Control-Allow-Origin', '*');
  c.env?.outgoing?.setHeader('Access-Control-Expose-Headers', '*');
  if (c.req.method !== 'OPTIONS' || c.req.header('access-control-request-method') === undefined) return await next();
  const headers = c.req.header('access-control-request-headers') ?? '';
  return c.body(null, 204, { 'Access-Control-Allow-Methods': methods, 'Access-Control-Allow-Headers': headers });
};
