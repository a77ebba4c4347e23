import { addAbortSignal, type Readable } from 'node:stream';
import { errors } from 'undici';
import { z } from 'zod';
import { CodeBoxError, type ErrorCode, errorReasons } from '#contract';
import { boxJson, jsonExcess } from '../../json/json-bounds.ts';
import { brokenProtocol } from './broken-protocol.ts';

/** The head of an answer must come within this, and so must all of a short one. */
export const answerDeadlineMs = 20_000;
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

/** How a box failed to answer: it cannot be reached or broke off, was too late, or sent what makes no sense. */
export type BoxServerFailure = 'unreachable' | 'timeout' | 'bad_answer';

/** The failure behind an error of a call; undefined when the box refused, or when nobody waited for it any more. */
export const failureOf = (error: unknown): BoxServerFailure | undefined => {
  if (error instanceof CodeBoxError) return error.code === 'unavailable' ? 'bad_answer' : undefined;
  if (isLate(error) || (error instanceof Error && error.name === 'TimeoutError')) return 'timeout';
  const isLeft = error instanceof Error && error.name === 'AbortError';
  const isClosed = error instanceof errors.ClientDestroyedError || error instanceof errors.ClientClosedError;
  return isLeft || isClosed ? undefined : 'unreachable';
};

const isLate = (error: unknown): boolean =>
  error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError;

/** What undici throws, as one of ours: a box that is gone or silent is `unavailable`. */
export const translate = (cause: unknown): CodeBoxError => {
  if (cause instanceof CodeBoxError) return cause;
  const text = isLate(cause) ? 'The box did not answer in time.' : 'The box does not answer.';
  return new CodeBoxError('unavailable', text, { cause, retryAfterSeconds: 1 });
};

/** Reads a JSON answer of bounded size within 20 s, however slowly it drips; late, it throws an AbortError. */
export const readBounded = async (body: Readable, deadlineMs = answerDeadlineMs): Promise<string> => {
  addAbortSignal(AbortSignal.timeout(deadlineMs), body);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxJsonBytes) throw brokenProtocol('The box sent too long an answer.');
    chunks.push(chunk);
  }
  const answer = Buffer.concat(chunks);
  const excess = jsonExcess(answer, boxJson);
  if (excess !== undefined) throw brokenProtocol(`The box sent an answer that ${excess}.`);
  return answer.toString('utf8');
};

/** What a box answered, as its schema says; throws `unavailable` for anything else. */
export const readAnswer = async <T>(schema: z.ZodType<T>, body: Readable, deadlineMs?: number): Promise<T> =>
  parseAnswer(schema, await readBounded(body, deadlineMs).catch((error: unknown) => Promise.reject(translate(error))));

/** What a box answered, checked; throws `unavailable` for anything else than `schema` describes. */
export const parseAnswer = <T>(schema: z.ZodType<T>, text: string): T => {
  const parsed = schema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw brokenProtocol('The box sent an unexpected answer.', parsed.error);
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw brokenProtocol('The box sent something that is not JSON.', cause);
  }
};

/** The error that an answer with such a status stands for. */
export const readRefusal = async (status: number, body: Readable, deadlineMs?: number): Promise<CodeBoxError> => {
  const code = refusals[status];
  const text = await readBounded(body, deadlineMs);
  // The answer to HEAD has no body that tells more.
  if (code && text === '') return new CodeBoxError(code, 'The box refused that.');
  const parsed = refusalSchema.safeParse(parseJson(text || '{}'));
  if (!code || !parsed.success)
    return new CodeBoxError('unavailable', 'The box could not do that.', { cause: { status, parsed } });
  const { detail, pointer, reason } = parsed.data;
  return new CodeBoxError(code, detail, {
    reason,
    ...(pointer && { errors: [{ pointer, detail }] }),
    ...(status === 429 && { retryAfterSeconds: 1 }),
  });
};
