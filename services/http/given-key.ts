import type { Context } from 'hono';
import type { HttpEnv } from './env.ts';

/** The key that a request gives in `Authorization: Bearer` or `X-API-Key`. */
export const givenKey = <E extends HttpEnv>(c: Context<E>): string | undefined =>
  /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1] ?? c.req.header('x-api-key');
