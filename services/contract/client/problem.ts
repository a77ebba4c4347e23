import { CodeBoxError, type CodeBoxErrorOptions, type ErrorCode } from '../problems/errors.ts';
import { type Problem, problemSchema } from '../problems/problem.ts';

/** Drops unknown reasons, which a newer gateway may have; the code remains. */
const receivedSchema = problemSchema.extend({ reason: problemSchema.shape.reason.catch(undefined) });

/** Error codes for responses that are not problem+json, so come from a proxy and not from the gateway. */
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

/**
 * The error that a response with a status of 400 or above describes: a problem+json, or the response of a proxy before
 * the gateway.
 */
export const problemOf = async (response: Response): Promise<CodeBoxError> => {
  const { status, statusText, headers } = response;
  const retryAfterSeconds = secondsOf(headers.get('retry-after'));
  const requestId = headers.get('x-request-id') ?? undefined;
  const options: CodeBoxErrorOptions = {
    status,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(requestId !== undefined && { requestId }),
  };
  const text = await response.text();
  const problem = receivedSchema.safeParse(asJson(text)).data;
  if (problem === undefined) {
    // The body is often a page of HTML, which nobody wants to read as an error.
    const received = `${status} ${statusText}`.trim();
    return new CodeBoxError(
      byStatus[status] ?? 'internal',
      `The response was ${received}, which is not from CodeBox.`,
      options,
    );
  }
  return toError(problem, options);
};

/** Converts a problem document to an error. */
export const toError = (problem: Problem, options: CodeBoxErrorOptions = {}): CodeBoxError =>
  new CodeBoxError(problem.code, problem.detail, {
    status: problem.status,
    ...options,
    requestId: problem.requestId,
    ...(problem.reason && { reason: problem.reason }),
    ...(problem.retryAfterSeconds !== undefined && { retryAfterSeconds: problem.retryAfterSeconds }),
    ...(problem.errors && { errors: problem.errors }),
    ...(problem.quota && { quota: problem.quota }),
  });

const asJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    // The body comes from a proxy, so only the status is used.
    return undefined;
  }
};
