import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { FileHead, NoSuchRange } from '../boxes/reach/files.ts';
import type { Env } from './env.ts';

/**
 * Passes a body on from socket to socket: through web streams it would cost three times the memory and half the speed.
 * A transfer that breaks off cuts the connection, which tells the reader that the bytes are not all there.
 */
export const sendFile = (
  c: Context<Env>,
  file: FileHead,
  named: Record<string, string>,
  body: Readable | undefined,
): Response => {
  const status = file.isUnchanged ? 304 : file.range ? 206 : 200;
  const headers = { ...named, ...headersOf(file), 'x-request-id': c.get('requestId') };
  const outgoing = c.env?.outgoing;
  try {
    if (!body || file.isUnchanged) return new Response(null, { status, headers });
    if (!outgoing) return new Response(Readable.toWeb(body) as ReadableStream, { status, headers });
    outgoing.writeHead(status, headers);
  } catch (cause) {
    // A box may send headers that cannot be passed on.
    body?.destroy();
    throw new CodeBoxError('unavailable', 'The box sent an unexpected answer.', { cause, reason: 'protocol' });
  }
  pipeline(body, outgoing).catch((err: unknown) => c.get('log').info({ err }, 'a download broke off'));
  return RESPONSE_ALREADY_SENT;
};

const headersOf = ({ lengthBytes, range, hasRanges, etag, modifiedAt }: FileHead): Record<string, string> => ({
  ...(lengthBytes !== undefined && { 'content-length': String(lengthBytes) }),
  ...(range && { 'content-range': `bytes ${range.first}-${range.last}/${range.sizeBytes}` }),
  ...(hasRanges && { 'accept-ranges': 'bytes' }),
  ...(etag !== undefined && { etag }),
  ...(modifiedAt && { 'last-modified': modifiedAt.toUTCString() }),
});

/** Says in a header what the caller can ask for a range of. */
export const tellSize = (c: Context<Env>, { sizeBytes }: NoSuchRange): void => {
  if (sizeBytes !== undefined) c.header('Content-Range', `bytes */${sizeBytes}`);
};
