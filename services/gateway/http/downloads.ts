import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { FileHead, NoSuchRange } from '../boxes/reach/files.ts';
import type { Env } from './env.ts';

/**
 * Pipes a body from socket to socket: web streams would take three times the memory and halve the speed. A transfer that breaks off
 * closes the connection, so the client can see that the content is incomplete.
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
    // A box may send header values that `writeHead` rejects.
    body?.destroy();
    throw new CodeBoxError('unavailable', 'The box sent an invalid response.', { cause, reason: 'protocol' });
  }
  pipeline(body, outgoing).catch((err: unknown) => c.get('log').info({ err }, 'a download was interrupted'));
  return RESPONSE_ALREADY_SENT;
};

const headersOf = ({ kind, lengthBytes, range, hasRanges, etag, modifiedAt }: FileHead): Record<string, string> => ({
  ...(lengthBytes !== undefined && { 'content-length': String(lengthBytes) }),
  ...(range && { 'content-range': `bytes ${range.first}-${range.last}/${range.sizeBytes}` }),
  ...(hasRanges && { 'accept-ranges': 'bytes' }),
  ...(etag !== undefined && { etag }),
  // The contents of a folder can change while its time does not, and caches would rely on that.
  ...(modifiedAt && kind !== 'folder' && { 'last-modified': modifiedAt.toUTCString() }),
});

/** Sets the header of a 416 that reports the size of the file. */
export const setFileSize = (c: Context<Env>, { sizeBytes }: NoSuchRange): void => {
  if (sizeBytes !== undefined) c.header('Content-Range', `bytes */${sizeBytes}`);
};
