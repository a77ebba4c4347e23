import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { HttpEnv } from './env.ts';

/** Nothing is received, or the box does not answer after the last byte, for this long: the upload is given up. */
const silenceMs = 60_000;

/**
 * The raw request as a Node stream, and a signal that fires when nothing has moved for too long: neither a byte of the body,
 * nor, after the last one, the box's answer.
 */
export const openUpload = <E extends HttpEnv>(c: Context<E>): { body: Readable; signal: AbortSignal } & Disposable => {
  const body = c.env?.incoming ?? (c.req.raw.body ? Readable.fromWeb(c.req.raw.body as never) : Readable.from([]));
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new CodeBoxError('timeout', 'The upload stopped.')), silenceMs);
  body.on('data', () => timer.refresh());
  // Listening makes it flow; whoever takes the stream lets it go on.
  body.pause();
  return { body, signal: silence.signal, [Symbol.dispose]: () => clearTimeout(timer) };
};
