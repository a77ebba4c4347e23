import { type Caller, callerSchema } from '#contract';
import type { Endpoints } from '../endpoint.ts';

/** `/v1/caller`: for services that receive a key from their own callers. */
export const addCallerRoute = ({ add }: Endpoints): void => {
  add(
    {
      method: 'get',
      path: '/v1/caller',
      scope: 'any',
      summary: 'Read the tenant and the scopes of a key',
      tag: 'System',
      responses: { 200: { description: 'The tenant, the key and its scopes.', schema: callerSchema } },
    },
    ({ c, tenant }) => {
      const scopes = c.get('scopes');
      return c.json({ tenant, key: c.get('keyId'), scopes: scopes && [...scopes] } satisfies Caller);
    },
  );
};
