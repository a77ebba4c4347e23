import { CodeBoxError, type CodeBoxErrorOptions, type ErrorCode } from './errors.ts';
import { type Problem, problemSchema } from './problem.ts';

/** What an answer means that is no problem+json, so not the gateway's but that of a proxy before it. */
const byStatus: Record<number, ErrorCode> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  413: 'too_large',
  429: 'too_many_requests',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
};

const secondsOf = (header: string | null): number | undefined =>
  header !== null && /^\d{1,6}$/.test(header) ? Number(header) : undefined;

/** The error that an answer with a status from 400 tells of: a problem+json, or what a proxy before the gateway says. */
export const problemOf = async (response: Response): Promise<CodeBoxError> => {
  const { status, headers } = response;
  const retryAfterSeconds = secondsOf(headers.get('retry-after'));
  const requestId = headers.get('x-request-id') ?? undefined;
  const options: CodeBoxErrorOptions = {
    status,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(requestId !== undefined && { requestId }),
  };
  const text = await response.text();
  const problem = problemSchema.safeParse(asJson(text)).data;
  if (problem === undefined) {
    const said = `${status} ${text.slice(0, 200)}`.trim();
    return new CodeBoxError(byStatus[status] ?? 'internal', `The answer was ${said}`, options);
  }
  return toError(problem, options);
};

/** A problem as the error that it tells of. */
export const toError = (problem: Problem, options: CodeBoxErrorOptions = {}): CodeBoxError =>
  new CodeBoxError(problem.code, problem.detail, {
    status: problem.status,
    ...options,
    requestId: problem.requestId,
    ...(problem.retryAfterSeconds !== undefined && { retryAfterSeconds: problem.retryAfterSeconds }),
    ...(problem.errors && { errors: problem.errors }),
    ...(problem.quota && { quota: problem.quota }),
  });

const asJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    // A proxy's own page: the status says enough.
    return undefined;
  }
};
