import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import type { Lifecycle } from '../boxes/life/lifecycle.ts';
import type { Env } from './env.ts';

/**
 * Of a box that does not answer, whether it has ended meanwhile, perhaps through another gateway: then that is what its caller is
 * told. Never throws.
 */
export const explainSilence = async (
  c: Context<Env>,
  error: CodeBoxError,
  lifecycle: Pick<Lifecycle, 'ended'>,
): Promise<CodeBoxError> => {
  const box = c.get('box');
  if (error.code !== 'unavailable' || box === undefined || c.get('tenant') === undefined) return error;
  // Who ends it wants to know whether that is done.
  if (c.req.method === 'DELETE' && c.get('route').endsWith('/{box}')) return error;
  const ended = await lifecycle.ended({ tenant: c.get('tenant'), box }).catch(() => undefined);
  return ended ?? error;
};
