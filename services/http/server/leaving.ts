import { addAbortListener } from 'node:events';
import type { MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import type { HttpEnv } from '../env.ts';

export interface LeavingOptions {
  /** Aborted when the gateway begins to stop: from then on connections are not kept alive. */
  stopping: AbortSignal;
  /** Aborted shortly before pending requests would be cut. */
  leaving: AbortSignal;
}

/**
 * Responds to requests that a stopping gateway can no longer wait for: 503 with Retry-After, and with the URL of what
 * was started, which continues. Streams end by themselves.
 */
export const refuseBeforeLeaving =
  <E extends HttpEnv>({ stopping, leaving }: LeavingOptions): MiddlewareHandler<E> =>
  async (c, next) => {
    if (stopping.aborted) c.header('Connection', 'close');
    const { promise: left, resolve: leave } = Promise.withResolvers<'left'>();
    using _ = addAbortListener(leaving, () => leave('left'));
    const winner = await Promise.race([next(), left]);
    if (winner !== 'left') return;
    const location = c.res.headers.get('content-location');
    const rest = location === null ? 'Retry later.' : `What was started continues: read it at ${location}.`;
    throw new CodeBoxError('unavailable', `The service is stopping. ${rest}`, { retryAfterSeconds: 1 });
  };
