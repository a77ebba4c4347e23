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
import { addUploadRoutes } from './uploads.ts';

/** Words that LibreChat looks for; other errors keep the code of CodeBox. */
const words: Partial<Record<ErrorCode, string>> = {
  too_many_requests: 'rate_limited',
  quota_exceeded: 'rate_limited',
  timeout: 'execution_timeout',
};

const surface: Surface = {
  claims: { prefix: '/librechat' },
  credentialOf(c) {
    const key = givenKey(c);
    return key === undefined ? undefined : { key };
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
};

/** LibreChat's Code API. */
export const librechat: readonly Dialect[] = [
  {
    surface,
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
