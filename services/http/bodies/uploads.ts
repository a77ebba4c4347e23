import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { HttpEnv } from '../env.ts';

/** An upload is aborted when no data arrives, or the box does not respond after the last byte, for this long. */
const silenceMs = 60_000;

/**
 * The raw request as a Node stream, and a signal that aborts when nothing has moved for too long: neither a byte of the
 * body nor, after the last one, the box's response.
 */
export const openUpload = <E extends HttpEnv>(c: Context<E>): { body: Readable; signal: AbortSignal } & Disposable => {
  const body = c.env?.incoming ?? (c.req.raw.body ? Readable.fromWeb(c.req.raw.body as never) : Readable.from([]));
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new CodeBoxError('timeout', 'The upload stopped.')), silenceMs);
  body.on('data', () => timer.refresh());
  // Listening starts the flow; the consumer resumes it.
  body.pause();
  return { body, signal: silence.signal, [Symbol.dispose]: () => clearTimeout(timer) };
};
