import { Readable } from 'node:stream';
import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import type { Jupyter } from '../../boxes/reach/jupyter.ts';
import type { Env } from '../../http/env.ts';

/** Renders an error as Jupyter Server does. */
export const respondWithError = (c: Context<Env>, error: CodeBoxError): Response => {
  setRetryAfter(c, error);
  return c.json({ message: error.message, reason: error.code }, problemKinds[error.code].status);
};

/** Passes on a response of the Jupyter server in a box, which is JSON. */
export const respondWith = (
  c: Context<Env>,
  { status, headers, body }: Awaited<ReturnType<Jupyter['request']>>,
): Response => {
  const modified = headers['last-modified'];
  const named = {
    'content-type': 'application/json',
    'x-content-type-options': 'nosniff',
    'x-request-id': c.get('requestId'),
    ...(typeof modified === 'string' && !Number.isNaN(Date.parse(modified)) && { 'last-modified': modified }),
  };
  // Hono drops the body of a response to HEAD without ending it.
  if (status === 204 || status === 304 || c.req.method === 'HEAD') {
    body.destroy();
    return new Response(null, { status, headers: named });
  }
  return new Response(Readable.toWeb(body) as ReadableStream, { status, headers: named });
};
