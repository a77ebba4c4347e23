import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import { problemKinds } from '../../../../http/problems/kinds.ts';
import type { Env } from '../../../http/env.ts';
import type { Surface } from '../../../http/surface.ts';
import { toBoxId } from '../address.ts';
import { respondWith } from '../errors.ts';
import { fromE2bKey } from '../key.ts';

/** All paths of E2B's control plane, also those that are not served: their clients expect its errors there. */
const paths = /^\/(?:v[23]\/)?(?:sandboxes|snapshots|templates|volumes|secrets|teams|events)(?:[/?]|$)/;

/** E2B's control plane, with an API key in the form `e2b_…` in `X-API-Key`. */
export const controlSurface: Surface = {
  claims: { request: ({ url = '' }: IncomingMessage) => paths.test(url) },
  credentialOf(c) {
    const key = fromE2bKey(c.req.header('x-api-key'));
    return key === undefined ? undefined : { key };
  },
  needed: () => 'A valid API key is needed in X-API-Key: e2b_ and the hexadecimal digits of a CodeBox key.',
  // E2B does not distinguish a sandbox that has ended from one that never existed.
  respond: (c: Context<Env>, error: CodeBoxError) =>
    respondWith(c, error.code === 'gone' ? 404 : problemKinds[error.code].status, error),
  toBox: toBoxId,
};
