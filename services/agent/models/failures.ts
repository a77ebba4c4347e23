import { z } from 'zod';
import { CodeBoxError, type ErrorCode, findCodeBoxError } from '#contract';

/** The fields that the errors of both SDKs share; a network failure below them has none of these. */
const failureSchema = z.object({
  status: z.number().optional().catch(undefined),
  code: z.string().optional().catch(undefined),
  type: z.string().optional().catch(undefined),
  message: z.string().catch(''),
  headers: z.instanceof(Headers).optional().catch(undefined),
});

type Failure = z.infer<typeof failureSchema>;

const byType = new Map<string, ErrorCode>(
  Object.entries({
    overloaded_error: 'unavailable',
    api_error: 'unavailable',
    timeout_error: 'unavailable',
    server_error: 'unavailable',
    rate_limit_error: 'too_many_requests',
    rate_limit_exceeded: 'too_many_requests',
    authentication_error: 'unauthorized',
    permission_error: 'unauthorized',
    invalid_request_error: 'invalid_request',
    not_found_error: 'invalid_request',
  } satisfies Record<string, ErrorCode>),
);

const tooLong = /context.?length|context window|prompt is too long|too many tokens|maximum context|request_too_large/i;

const codeOf = ({ status, code, type, message }: Failure, wasOpen: boolean): ErrorCode => {
  if (status === undefined) return byType.get(type ?? code ?? '') ?? (wasOpen ? 'bad_gateway' : 'unavailable');
  if (status === 401 || status === 403) return 'unauthorized';
  if (status === 429) return 'too_many_requests';
  if (status === 408 || status >= 500) return 'unavailable';
  if (status === 413 || tooLong.test(`${code} ${message}`)) return 'too_large';
  return 'invalid_request';
};

/** Seconds of Retry-After, which may also be a date. */
const retryAfterOf = (headers: Headers | undefined): number | undefined => {
  const text = headers?.get('retry-after');
  if (!text) return undefined;
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
};

const failureTexts: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'refuses the key',
  too_many_requests: 'received too many requests',
  too_large: 'cannot take a conversation of this length',
  invalid_request: 'refuses the request',
  bad_gateway: 'stopped in the middle of its answer',
  unavailable: 'cannot be reached, or fails',
};

const maxDetail = 500;

/** Removes keys from a text: this one and everything that looks like one. */
export const withoutKeys = (text: string, key: string | undefined): string =>
  (key ? text.replaceAll(key, '***') : text).replace(/\b(sk|key|pk)-[\w*.-]{6,}/g, '***');

/**
 * Converts an error of an SDK to one of the port. `wasOpen`: the answer had begun. The provider's own message is kept,
 * except for a key that it refuses, since it may repeat the key.
 */
export const toModelError = (
  thrown: unknown,
  { model, key, wasOpen }: { model: string; key: string | undefined; wasOpen: boolean },
): CodeBoxError => {
  const known = findCodeBoxError(thrown);
  if (known) return known;
  const failure = failureSchema.parse(thrown instanceof Error ? thrown : {});
  const code = codeOf(failure, wasOpen);
  const detail =
    failure.status === undefined || code === 'unauthorized' ? '' : `: ${withoutKeys(failure.message, key)}`;
  const retryAfterSeconds = retryAfterOf(failure.headers);
  return new CodeBoxError(code, `The model ${model} ${failureTexts[code]}${detail.slice(0, maxDetail)}`.trimEnd(), {
    cause: new Error(withoutKeys(failure.message, key).slice(0, maxDetail)),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
};
