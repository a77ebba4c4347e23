import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { problemKinds } from '../../../../http/problems/kinds.ts';
import type { Env } from '../../../http/env.ts';
import type { Surface } from '../../../http/surface.ts';
import { toBoxId } from '../address.ts';
import { respondWith } from '../errors.ts';
import { fromE2bKey } from '../key.ts';
import type { Tokens } from '../tokens.ts';
import { readUpload } from './build-context.ts';

/** All paths of E2B's control plane, also those that are not served: their clients expect its errors there. */
const paths = /^\/(?:v[23]\/)?(?:sandboxes|snapshots|templates|volumes|volumecontent|secrets|teams|events)(?:[/?]|$)/;

/** What E2B has below paths that are not served here. */
const unsupported: readonly (readonly [paths: RegExp, what: string])[] = [
  [/^\/(?:volumes|volumecontent)(?:\/|$)/, 'Volumes are'],
  [/^\/secrets(?:\/|$)/, 'Secrets are'],
  [/^\/(?:v[23]\/)?templates(?:\/(?!aliases\/|[^/]+\/builds\/).*)?$/, 'Tags, and this call on templates, are'],
];

/** Returns the refusal of a call that E2B has and the gateway does not; undefined for any other error. */
const refusalOf = (path: string, { code }: CodeBoxError): CodeBoxError | undefined => {
  if (code !== 'not_found' && code !== 'method_not_allowed') return undefined;
  // A snapshot or template that does not exist is deleted by this path.
  if (code === 'not_found' && /^\/templates\/[^/]+$/.test(path)) return undefined;
  const [, what] = unsupported.find(([pattern]) => pattern.test(path)) ?? [];
  return what === undefined ? undefined : new CodeBoxError(code, `${what} not supported by CodeBox.`);
};

/** E2B's control plane, with an API key in the form `e2b_…` in `X-API-Key`, or a token in the URL of an upload. */
export const createControlSurface = (tokens: Tokens): Surface => ({
  claims: { request: ({ url = '' }: IncomingMessage) => paths.test(url) },
  credentialOf(c) {
    const maker = readUpload(c, tokens);
    if (maker) return { maker };
    const key = fromE2bKey(c.req.header('x-api-key'));
    return key === undefined ? undefined : { key };
  },
  needed: () => 'A valid API key is needed in X-API-Key: e2b_ and the hexadecimal digits of a CodeBox key.',
  respond(c: Context<Env>, error: CodeBoxError) {
    const refusal = refusalOf(c.req.path, error);
    if (refusal) return respondWith(c, 501, refusal);
    // E2B does not distinguish a sandbox that has ended from one that never existed.
    return respondWith(c, error.code === 'gone' ? 404 : problemKinds[error.code].status, error);
  },
  toBox: toBoxId,
});
