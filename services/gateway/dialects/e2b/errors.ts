import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { CodeBoxError } from '#contract';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import type { Env } from '../../http/env.ts';

/** Returns the message of an error, with the faults in the input that it does not name: E2B's errors have no field for them. */
export const messageOf = ({ message, errors }: CodeBoxError): string =>
  [
    message,
    ...errors
      .filter(({ pointer, detail }) => !message.includes(`${pointer} ${detail}`))
      .map(({ pointer, detail }) => `${pointer.slice(1) || 'The body'} ${detail}.`),
  ].join(' ');

/** Responds as E2B's control plane and daemon do: clients read the status from the body too. */
export const respondWith = (c: Context<Env>, status: ContentfulStatusCode, error: CodeBoxError): Response => {
  setRetryAfter(c, error);
  return c.json({ code: status, message: messageOf(error) }, status);
};
