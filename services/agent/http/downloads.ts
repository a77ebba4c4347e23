import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context } from 'hono';
import { downloadHeaders } from '../../http/bodies/downloads.ts';
import type { OpenFile, Range } from '../chats/files/files.ts';
import { isRaster } from '../chats/files/mime.ts';
import type { Env } from './env.ts';

/** The requested range; undefined for the whole file, also when the header has any other form. */
export const readRange = (c: Context<Env>): Range | undefined => {
  const [, start, end] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(c.req.header('range') ?? '') ?? [];
  return start === undefined ? undefined : { start: Number(start), ...(end && { end: Number(end) }) };
};

/**
 * Streams a file to the response. Pictures that cannot run code are shown inline; everything else is downloaded, and
 * sandboxed in case a browser shows it anyway.
 */
export const sendFile = (c: Context<Env>, file: OpenFile, name: string): Response => {
  const headers = {
    ...downloadHeaders(name, file.mime),
    ...(isRaster(file.mime) && { 'content-disposition': 'inline' }),
    'cache-control': 'private, max-age=300',
    'cross-origin-resource-policy': 'same-origin',
    ...file.headers,
    'x-request-id': c.get('requestId'),
  };
  const outgoing = c.env?.outgoing;
  if (c.req.method === 'HEAD') {
    file.body.destroy();
    return c.body(null, 200, headers);
  }
  if (!outgoing) return new Response(Readable.toWeb(file.body) as ReadableStream, { status: file.status, headers });
  outgoing.writeHead(file.status, headers);
  pipeline(file.body, outgoing).catch((err: unknown) => c.get('log').info({ err }, 'a download was interrupted'));
  return RESPONSE_ALREADY_SENT;
};
