import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { CodeBoxError, type ErrorCode, type Problem } from '#contract';
import type { HttpEnv } from './env.ts';

const statuses: Record<ErrorCode, { status: ContentfulStatusCode; title: string }> = {
  invalid_request: { status: 400, title: 'Bad Request' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  forbidden: { status: 403, title: 'Forbidden' },
  cpu_limit: { status: 403, title: 'Forbidden' },
  not_found: { status: 404, title: 'Not Found' },
  method_not_allowed: { status: 405, title: 'Method Not Allowed' },
  conflict: { status: 409, title: 'Conflict' },
  gone: { status: 410, title: 'Gone' },
  precondition_failed: { status: 412, title: 'Precondition Failed' },
  too_large: { status: 413, title: 'Content Too Large' },
  unsupported_media_type: { status: 415, title: 'Unsupported Media Type' },
  range_not_satisfiable: { status: 416, title: 'Range Not Satisfiable' },
  upgrade_required: { status: 426, title: 'Upgrade Required' },
  idempotency_mismatch: { status: 422, title: 'Unprocessable Content' },
  too_many_requests: { status: 429, title: 'Too Many Requests' },
  quota_exceeded: { status: 429, title: 'Too Many Requests' },
  internal: { status: 500, title: 'Internal Server Error' },
  bad_gateway: { status: 502, title: 'Bad Gateway' },
  unavailable: { status: 503, title: 'Service Unavailable' },
  timeout: { status: 504, title: 'Gateway Timeout' },
  disk_full: { status: 507, title: 'Insufficient Storage' },
};

/** When to try again, where nobody knows better. */
const soonSeconds = 1;

/** The CodeBoxError that is, or caused, what was thrown; anything else is `internal` and its text stays in the log. */
export const asCodeBoxError = (thrown: unknown): CodeBoxError => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error instanceof CodeBoxError) return error;
    if (error.name === 'TimeoutError') return new CodeBoxError('timeout', 'It took too long.', { cause: error });
    if (error instanceof HTTPException && error.status === 413)
      return new CodeBoxError('too_large', 'The body is too large.');
  }
  return new CodeBoxError('internal', 'Something went wrong inside the service.', { cause: thrown });
};

/** An error as RFC 9457 problem details. */
export const toProblem = (error: CodeBoxError, requestId: string): Problem => {
  const { status, title } = statuses[error.code];
  const retryAfterSeconds = error.retryAfterSeconds ?? (status === 429 || status === 503 ? soonSeconds : undefined);
  return {
    type: `urn:codebox:problem:${error.code}`,
    title,
    status,
    detail: error.message,
    code: error.code,
    requestId,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(error.errors.length > 0 && { errors: [...error.errors] }),
    ...(error.quota && { quota: error.quota }),
  };
};

/** The answer to a request that failed. */
export const problemResponse = <E extends HttpEnv>(c: Context<E>, error: CodeBoxError): Response => {
  const problem = toProblem(error, c.get('requestId') ?? '');
  if (problem.retryAfterSeconds !== undefined) c.header('Retry-After', String(problem.retryAfterSeconds));
  if (error.code === 'unauthorized') c.header('WWW-Authenticate', 'Bearer realm="codebox"');
  if (error.code === 'upgrade_required') c.header('Upgrade', 'websocket');
  return c.body(JSON.stringify(problem), statuses[error.code].status, { 'Content-Type': 'application/problem+json' });
};
