import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { CodeBoxError, type ErrorReason, type Problem } from '#contract';
import type { HttpEnv } from '../env.ts';
import { problemKinds } from './kinds.ts';
import { problemPath } from './pages.ts';

/** The default of `Retry-After`. */
const soonSeconds = 1;

/** Returns the CodeBoxError that was thrown or caused the thrown error; anything else is `internal` and its text stays in the log. */
export const asCodeBoxError = (thrown: unknown): CodeBoxError => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error instanceof CodeBoxError) return error;
    if (error.name === 'TimeoutError')
      return new CodeBoxError('timeout', 'The request took too long.', { cause: error });
    if (error instanceof HTTPException && error.status === 413)
      return new CodeBoxError('too_large', 'The body is too large.');
  }
  return new CodeBoxError('internal', 'Something went wrong inside the service.', { cause: thrown });
};

/** The reasons for which a retry of what is unavailable does not help. */
const lasting = new Set<ErrorReason | undefined>(['protocol', 'image_unavailable', 'gpu_unavailable', 'box_refused']);

/** After how many seconds the request may succeed; undefined if a retry does not help. */
const retryAfterOf = (error: CodeBoxError): number | undefined => {
  const { status } = problemKinds[error.code];
  const isPassing = (status === 429 || status === 503) && !lasting.has(error.reason);
  return error.retryAfterSeconds ?? (isPassing ? soonSeconds : undefined);
};

/** Sets `Retry-After` if a retry may help. */
export const setRetryAfter = <E extends HttpEnv>(c: Context<E>, error: CodeBoxError): void => {
  const seconds = retryAfterOf(error);
  if (seconds !== undefined) c.header('Retry-After', String(Math.ceil(seconds)));
};

/** An error as RFC 9457 problem details. */
export const toProblem = (error: CodeBoxError, requestId: string): Problem => {
  const { status, title } = problemKinds[error.code];
  const retryAfterSeconds = retryAfterOf(error);
  return {
    type: problemPath(error.code),
    title,
    status,
    detail: error.message,
    code: error.code,
    ...(error.reason && { reason: error.reason }),
    requestId,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(error.errors.length > 0 && { errors: [...error.errors] }),
    ...(error.quota && { quota: error.quota }),
  };
};

/** The response to a failed request. */
export const problemResponse = <E extends HttpEnv>(c: Context<E>, error: CodeBoxError): Response => {
  const problem = toProblem(error, c.get('requestId') ?? '');
  setRetryAfter(c, error);
  if (error.code === 'unauthorized') c.header('WWW-Authenticate', 'Bearer realm="codebox"');
  if (error.code === 'upgrade_required') c.header('Upgrade', 'websocket');
  return c.body(JSON.stringify(problem), problemKinds[error.code].status, {
    'Content-Type': 'application/problem+json',
  });
};
