import type { Context } from 'hono';
import type { Conditions } from '../../../boxes/reach/files.ts';
import type { Env } from '../../env.ts';

/** Reads the conditional headers of a request. */
export const conditionsOf = (c: Context<Env>): Conditions => ({
  ifMatch: c.req.header('if-match'),
  ifNoneMatch: c.req.header('if-none-match'),
  ifModifiedSince: c.req.header('if-modified-since'),
  ifUnmodifiedSince: c.req.header('if-unmodified-since'),
});
