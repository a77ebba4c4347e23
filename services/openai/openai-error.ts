import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { z } from 'zod';
import type { CodeBoxError } from '#contract';
import type { HttpEnv } from '../http/env.ts';
import { setRetryAfter, toProblem } from '../http/problems/problem.ts';

/** An error in OpenAI's form. */
export const openAiErrorSchema = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable().meta({ description: 'The field at fault, for example `messages[0].content`.' }),
      code: z.string().nullable(),
    }),
  })
  .meta({ id: 'OpenAiError' });

export type OpenAiError = z.infer<typeof openAiErrorSchema>;

const types: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
};

/** Codes that OpenAI's clients look for; other errors keep CodeBox's code. */
const codes: Partial<Record<CodeBoxError['code'], string>> = {
  unauthorized: 'invalid_api_key',
  too_many_requests: 'rate_limit_exceeded',
  quota_exceeded: 'insufficient_quota',
};

/** Converts an error to OpenAI's form, with its status. */
export const toOpenAiError = (error: CodeBoxError): { status: number; body: OpenAiError } => {
  const [fault] = error.errors;
  const isModel = fault?.pointer === '/model';
  const status = isModel ? 404 : toProblem(error, '').status;
  const code = isModel ? 'model_not_found' : (codes[error.code] ?? error.code);
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');
  const param = fault === undefined ? null : toParam(fault.pointer);
  return { status, body: { error: { message: error.message, type, param, code } } };
};

/** The response to a failed request, for OpenAI's clients. */
export const openAiErrorResponse = <E extends HttpEnv>(c: Context<E>, error: CodeBoxError): Response => {
  const { status, body } = toOpenAiError(error);
  setRetryAfter(c, error);
  if (error.code === 'unauthorized') c.header('WWW-Authenticate', 'Bearer realm="codebox"');
  return c.json(body, status as ContentfulStatusCode);
};

/** Converts `/messages/0/content` to `messages[0].content`. */
const toParam = (pointer: string): string | null => {
  const parts = pointer.split('/').slice(1);
  return parts.length === 0
    ? null
    : parts.map((part, at) => (/^\d+$/.test(part) ? `[${part}]` : at === 0 ? part : `.${part}`)).join('');
};
