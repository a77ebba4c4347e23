import type { Context } from 'hono';
import type { HttpEnv } from '../env.ts';

/**
 * The status that the caller receives, for logs and metrics: `c.res` does not know responses that are written directly
 * to the socket.
 */
export const sentStatus = <E extends HttpEnv>(c: Context<E>): number => {
  const { outgoing, upgrade } = c.env ?? {};
  if (upgrade?.isTaken()) return 101;
  return outgoing?.headersSent ? outgoing.statusCode : c.res.status;
};
