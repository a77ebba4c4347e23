import type { Context } from 'hono';
import type { HttpEnv } from './env.ts';

/** The status that the caller gets, for logs and metrics: of an answer sent straight to the socket the response knows nothing. */
export const sentStatus = <E extends HttpEnv>(c: Context<E>): number => {
  const { outgoing, upgrade } = c.env ?? {};
  if (upgrade?.isTaken()) return 101;
  return outgoing?.headersSent ? outgoing.statusCode : c.res.status;
};
