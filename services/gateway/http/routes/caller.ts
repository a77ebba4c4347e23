import { type Caller, callerSchema } from '#contract';
import type { Endpoints } from '../endpoint.ts';

/** `/v1/caller`: what a service that is given a key by somebody else asks. */
export const addCallerRoute = ({ add }: Endpoints): void => {
  add(
    {
      method: 'get',
      path: '/v1/caller',
      scope: 'any',
      summary: 'Whose key this is, and what it may do',
      tag: 'System',
      responses: { 200: { description: 'The tenant, the key and its scopes.', schema: callerSchema } },
    },
    ({ c, tenant }) => {
      const scopes = c.get('scopes');
      return c.json({ tenant, key: c.get('keyId'), scopes: scopes && [...scopes] } satisfies Caller);
    },
  );
};
