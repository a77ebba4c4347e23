import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import type { Directory } from '../boxes/life/directory.ts';
import type { Env } from './env.ts';

/**
 * Replaces `unavailable` by the end of the box when the box has ended meanwhile, perhaps through another gateway. Returns the given error
 * otherwise; never throws.
 */
export const withCauseOfEnd = async (
  c: Context<Env>,
  error: CodeBoxError,
  directory: Pick<Directory, 'endedError'>,
): Promise<CodeBoxError> => {
  const box = c.get('box');
  if (error.code !== 'unavailable' || box === undefined || c.get('tenant') === undefined) return error;
  // The caller that deletes a box needs the result of that deletion.
  if (c.req.method === 'DELETE' && c.get('route').endsWith('/{box}')) return error;
  const ended = await directory.endedError({ tenant: c.get('tenant'), box }).catch(() => undefined);
  return ended ?? error;
};
