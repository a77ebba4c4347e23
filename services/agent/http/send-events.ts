import type { Context } from 'hono';
import { type StreamedEvent, streamEvents, streamFormat } from '../../http/bodies/stream.ts';
import type { Env } from './env.ts';

export interface SendOptions<E> {
  events: AsyncGenerator<E>;
  /** Aborted when the reader leaves. */
  leave: AbortController;
  /** Aborted when the agent stops. */
  stopping: AbortSignal;
}

/** Streams events as NDJSON unless the caller accepts SSE. A reader that leaves breaks its stream, which deserves no warning. */
export const sendEvents = <E extends StreamedEvent>(c: Context<Env>, options: SendOptions<E>): Response =>
  streamEvents(c, {
    ...options,
    format: streamFormat(c) ?? 'ndjson',
    onError: (err) => c.get('log')[options.leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke'),
  });
