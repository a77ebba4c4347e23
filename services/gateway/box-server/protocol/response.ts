import { addAbortSignal, type Readable } from 'node:stream';
import { errors } from 'undici';
import { z } from 'zod';
import { CodeBoxError, type ErrorCode, errorReasons } from '#contract';
import { boxJson, jsonExcess } from '../../../json/json-bounds.ts';
import { brokenProtocol } from './broken-protocol.ts';

/** The deadline for the head of a response, and for the whole of a short one. */
export const responseDeadlineMs = 20_000;
const maxJsonBytes = 8 * 1024 * 1024;
const refusalSchema = z.object({
  code: z.string(),
  detail: z.string().max(2000),
  pointer: z.string().optional(),
  reason: z.enum(errorReasons).optional(),
});

const refusals: Record<number, ErrorCode> = {
  400: 'invalid_request',
  404: 'not_found',
  409: 'conflict',
  412: 'precondition_failed',
  413: 'too_large',
  416: 'range_not_satisfiable',
  429: 'too_many_requests',
  504: 'timeout',
  507: 'disk_full',
};

/** How a call failed: the box was unreachable, closed the connection, was too late, or sent an invalid response. */
export type BoxServerFailure = 'unreachable' | 'timeout' | 'bad_response';

/** Returns the failure behind an error of a call; undefined when the box refused the call or its caller had left. */
export const failureOf = (error: unknown): BoxServerFailure | undefined => {
  if (error instanceof CodeBoxError) return error.code === 'unavailable' ? 'bad_response' : undefined;
  if (isLate(error) || (error instanceof Error && error.name === 'TimeoutError')) return 'timeout';
  const isLeft = error instanceof Error && error.name === 'AbortError';
  const isClosed = error instanceof errors.ClientDestroyedError || error instanceof errors.ClientClosedError;
  return isLeft || isClosed ? undefined : 'unreachable';
};

const isLate = (error: unknown): boolean =>
  error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;

/** Translates errors of undici: a box that is gone or silent is `unavailable`. */
export const translate = (cause: unknown): CodeBoxError => {
  if (cause instanceof CodeBoxError) return cause;
  const text = isLate(cause) ? 'The box did not respond in time.' : 'The box does not respond.';
  return new CodeBoxError('unavailable', text, { cause, retryAfterSeconds: 1 });
};

/** Reads a JSON response of bounded size. Throws an AbortError after 20 s, however slowly it is sent. */
export const readBounded = async (body: Readable, deadlineMs = responseDeadlineMs): Promise<string> => {
  addAbortSignal(AbortSignal.timeout(deadlineMs), body);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxJsonBytes) throw brokenProtocol('The box sent a response that is too long.');
    chunks.push(chunk);
  }
  const response = Buffer.concat(chunks);
  const excess = jsonExcess(response, boxJson);
  if (excess !== undefined) throw brokenProtocol(`The box sent a response that ${excess}.`);
  return response.toString('utf8');
};

/** Reads the response of a box; throws `unavailable` when it does not match `schema`. */
export const readResponse = async <T>(schema: z.ZodType<T>, body: Readable, deadlineMs?: number): Promise<T> =>
  parseResponse(
    schema,
    await readBounded(body, deadlineMs).catch((error: unknown) => Promise.reject(translate(error))),
  );

/** Parses the response of a box; throws `unavailable` when it does not match `schema`. */
export const parseResponse = <T>(schema: z.ZodType<T>, text: string): T => {
  const parsed = schema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw brokenProtocol('The box sent an invalid response.', parsed.error);
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw brokenProtocol('The box sent a response that is not JSON.', cause);
  }
};

/** Reads an error response and returns the error that it stands for. */
export const readRefusal = async (status: number, body: Readable, deadlineMs?: number): Promise<CodeBoxError> => {
  const code = refusals[status];
  const text = await readBounded(body, deadlineMs);
  // The response to HEAD has no body with details.
  if (code && text === '') return new CodeBoxError(code, 'The box refused the request.');
  const parsed = refusalSchema.safeParse(parseJson(text || '{}'));
  if (!code || !parsed.success)
    return new CodeBoxError('unavailable', 'The box could not handle the request.', { cause: { status, parsed } });
  const { detail, pointer, reason } = parsed.data;
  return new CodeBoxError(code, detail, {
    reason,
    ...(pointer && { errors: [{ pointer, detail }] }),
    ...(status === 429 && { retryAfterSeconds: 1 }),
  });
};
