import type { ErrorCode } from '#contract';
import { givenKey } from '../../../http/endpoints/given-key.ts';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter, toProblem } from '../../../http/problems/problem.ts';
import type { Dialect } from '../../http/app.ts';
import type { Surface } from '../../http/surface.ts';
import { addExecRoute } from './exec.ts';
import { addFileRoutes } from './files.ts';
import { addProgrammaticRoute } from './programmatic.ts';
import { createPlaces } from './runs.ts';
import { createSessions } from './sessions.ts';
import type { Signer } from './settings.ts';
import { addUploadRoutes } from './uploads.ts';
import { readUser } from './user-tokens.ts';

/** Words that LibreChat looks for; other errors keep the code of CodeBox. */
const words: Partial<Record<ErrorCode, string>> = {
  too_many_requests: 'rate_limited',
  quota_exceeded: 'rate_limited',
  timeout: 'execution_timeout',
};

const createSurface = (signer: Signer | undefined): Surface => ({
  claims: { prefix: '/librechat' },
  async credentialOf(c) {
    const key = givenKey(c);
    if (key === undefined || !signer || key.startsWith('cbx_')) return key === undefined ? undefined : { key };
    const user = await readUser(key, signer.publicKey);
    if (user === undefined) return { find: async () => undefined };
    c.set('endUser', user);
    return { key: signer.key };
  },
  needed: () => 'A key of CodeBox is needed: X-API-Key: cbx_…',
  respond(c, error) {
    setRetryAfter(c, error);
    const status = error.code === 'gone' ? 404 : problemKinds[error.code].status;
    const { retryAfterSeconds } = toProblem(error, '');
    const message = [error.message, ...error.errors.map(({ pointer, detail }) => `${pointer} ${detail}`)].join(' ');
    const after = retryAfterSeconds !== undefined && { retry_after_seconds: retryAfterSeconds };
    return c.json({ error: words[error.code] ?? error.code, message, ...after }, status);
  },
});

/** LibreChat's Code API. Its requests have a key, or a token that it has signed for one of its users. */
export const createLibrechat = (signer: Signer | undefined): readonly Dialect[] => [
  {
    surface: createSurface(signer),
    addRoutes(endpoints, parts) {
      const sessions = createSessions(parts);
      endpoints.add(
        {
          method: 'get',
          path: '/librechat/health',
          scope: 'public',
          summary: 'Whether the API is served',
          tag: 'LibreChat',
          responses: {},
        },
        ({ c }) => c.json({ status: 'ok' }),
      );
      const places = createPlaces(parts, sessions);
      addExecRoute(endpoints, parts, places);
      addProgrammaticRoute(endpoints, parts, places, sessions);
      addUploadRoutes(endpoints, parts, sessions);
      addFileRoutes(endpoints, parts, sessions);
    },
  },
];
