import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { RawAnswer } from '../box-server/client.ts';
import type { Env } from './env.ts';

const passedBack = ['content-length', 'content-range', 'accept-ranges', 'etag', 'last-modified'];

/**
 * Passes a body on from socket to socket: through web streams it would cost three times the memory and half the speed.
 * A transfer that breaks off cuts the connection, which tells the reader that the bytes are not all there.
 */
export const sendRaw = (
  c: Context<Env>,
  answer: RawAnswer,
  passed: Record<string, string>,
  isEmpty: boolean,
): Response => {
  const { status, body } = answer;
  const headers = { ...passed, ...pickBack(answer.headers), 'x-request-id': c.get('requestId') };
  const outgoing = c.env?.outgoing;
  try {
    if (isEmpty) {
      body.resume();
      return new Response(null, { status, headers });
    }
    if (!outgoing) return new Response(Readable.toWeb(body) as ReadableStream, { status, headers });
    outgoing.writeHead(status, headers);
  } catch (cause) {
    // A box may send headers that cannot be passed on.
    body.destroy();
    throw new CodeBoxError('unavailable', 'The box sent an unexpected answer.', { cause, reason: 'protocol' });
  }
  pipeline(body, outgoing).catch((err: unknown) => c.get('log').info({ err }, 'a download broke off'));
  return RESPONSE_ALREADY_SENT;
};

/** Throws `range_not_satisfiable`, with the size that the caller can ask for a range of. */
export const refuseRange = (c: Context<Env>, answer: RawAnswer): never => {
  answer.body.destroy();
  const range = answer.headers['content-range'];
  if (typeof range === 'string' && /^bytes \*\/\d{1,20}$/.test(range)) c.header('Content-Range', range);
  throw new CodeBoxError('range_not_satisfiable', 'The file has no such bytes.', {
    errors: [{ pointer: '/headers/Range', detail: 'lies behind the end of the file' }],
  });
};

/** The headers of a request that are among `names`. */
export const pick = (c: Context<Env>, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => (c.req.header(name) === undefined ? [] : [[name, c.req.header(name) ?? '']])),
  );

const pickBack = (headers: RawAnswer['headers']): Record<string, string> =>
  Object.fromEntries(passedBack.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : [])));
