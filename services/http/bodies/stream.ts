import { addAbortListener } from 'node:events';
import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { CodeBoxError, type StreamClosing } from '#contract';
import type { HttpEnv } from '../env.ts';
import { asCodeBoxError } from '../problems/problem.ts';

export type StreamFormat = 'sse' | 'ndjson';

const pingMs = 15_000;
const types: Record<StreamFormat, string> = { sse: 'text/event-stream', ndjson: 'application/x-ndjson' };

/** The stream format that the caller accepts, or undefined for a JSON response. */
export const streamFormat = <E extends HttpEnv>(c: Context<E>): StreamFormat | undefined => {
  const type = accepts(c, {
    header: 'Accept',
    supports: ['application/json', ...Object.values(types)],
    default: 'application/json',
  });
  return type === types.sse ? 'sse' : type === types.ndjson ? 'ndjson' : undefined;
};

/** Where the caller wants to resume: `?after=`, or the header of an EventSource that reconnects. */
export const resumeAfter = <E extends HttpEnv>(c: Context<E>, after: number | undefined): number => {
  const last = c.req.header('last-event-id');
  return after ?? (last !== undefined && /^\d{1,9}$/.test(last) ? Number(last) : 0);
};

/** An event with the number by which a stream is resumed: of a run, or of the state of files. */
export type StreamedEvent = { type: string } & ({ seq: number } | { version: number });

/** Encodes an event that many readers get once for all of them. */
const once = <E extends object>(encode: (event: E) => string) => {
  const encoder = new TextEncoder();
  const known = new WeakMap<E, Uint8Array>();
  return (event: E): Uint8Array => {
    const bytes = known.get(event) ?? encoder.encode(encode(event));
    known.set(event, bytes);
    return bytes;
  };
};

const encoders = {
  sse: once(
    (event: StreamedEvent) =>
      `id: ${'seq' in event ? event.seq : event.version}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  ),
  ndjson: once((event: object) => `${JSON.stringify(event)}\n`),
};
const closing: StreamClosing = {
  type: 'closing',
  reason: 'restart',
  detail: 'The service is stopping. Open the stream again behind the last event.',
};
const closings = {
  sse: `event: closing\ndata: ${JSON.stringify(closing)}\n\n`,
  ndjson: `${JSON.stringify(closing)}\n`,
};
const pings = { sse: ': ping\n\n', ndjson: '\n' };

/** The encoding of a stream: in text, or in bytes. */
export interface StreamWire<E> {
  type: string;
  encode: (event: E) => string | Uint8Array;
  /** A keep-alive that readers skip, if the encoding has one. */
  ping?: string | Uint8Array;
  /** Sent when the server stops before the last event; by default the result of `fail` for that. */
  closing?: string | Uint8Array;
  /** Sent after the last event. */
  end?: () => string | Uint8Array;
  /** Sent as the end of a stream that fails. Without it the connection is cut, which shows that this is not the end. */
  fail?: (error: CodeBoxError) => string | Uint8Array | undefined;
}

export interface StreamOptions<E> {
  events: AsyncGenerator<E>;
  /** Aborted when the reader leaves, so that a silent source ends too. */
  leave: AbortController;
  /** Aborted when the gateway stops: the stream ends with the event `closing`, and can be resumed elsewhere. */
  stopping: AbortSignal;
  onError: (error: unknown) => void;
}

/**
 * Streams events as server-sent events or NDJSON, one at a time as the reader consumes them, with a ping after 15 s of
 * silence. An event is not retained once it is passed on: do not race each event against a long-lived promise, as that
 * would retain every event. A stream that cannot be resumed is cut when the server stops.
 */
export const streamEvents = <H extends HttpEnv, E extends StreamedEvent>(
  c: Context<H>,
  { format, canResume = true, ...options }: StreamOptions<E> & { format: StreamFormat; canResume?: boolean },
): Response =>
  streamAs(
    c,
    {
      type: types[format],
      encode: encoders[format],
      ping: pings[format],
      ...(canResume && { closing: closings[format] }),
    },
    options,
  );

const stopped = () => new CodeBoxError('unavailable', closing.detail, { retryAfterSeconds: 1 });

/** Streams events in any encoding, as `streamEvents` does. */
export const streamAs = <H extends HttpEnv, E>(
  c: Context<H>,
  wire: StreamWire<E>,
  { events, leave, stopping, onError }: StreamOptions<E>,
): Response => {
  const encoder = new TextEncoder();
  const toBytes = (frame: string | Uint8Array) => (typeof frame === 'string' ? encoder.encode(frame) : frame);
  let isOver = false;
  let silence: NodeJS.Timeout | undefined;
  let waiting: Disposable | undefined;
  const finish = () => {
    isOver = true;
    clearInterval(silence);
    // The listener on the stop signal is removed with the stream, or it would retain every past stream. This is not
    // done by an aborting signal, as Node forgets all of those but the last one.
    waiting?.[Symbol.dispose]();
  };
  const abandon = async () => {
    finish();
    leave.abort();
    await events.return(undefined).catch(() => {});
  };

  /** The status is sent already: only a frame of the wire's own, or the cut of the connection, shows that this is not the end. */
  const breakOff = (
    controller: ReadableStreamDefaultController<Uint8Array>,
    error: unknown,
    frame = wire.fail?.(asCodeBoxError(error)),
  ) => {
    if (frame === undefined) return controller.error(error);
    controller.enqueue(toBytes(frame));
    controller.close();
  };

  const headers = {
    'Content-Type': wire.type,
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
    'X-Content-Type-Options': 'nosniff',
  };
  if (c.req.method === 'HEAD') {
    // Nobody would read or close the body.
    void abandon();
    return c.body(null, 200, headers);
  }
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const { ping } = wire;
        const sendPing = (frame: Uint8Array) => {
          // A reader that has not taken the last event needs no keep-alive.
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(frame);
        };
        if (ping !== undefined) silence = setInterval(sendPing, pingMs, toBytes(ping));
        waiting = addAbortListener(stopping, () => {
          breakOff(controller, stopped(), wire.closing);
          void abandon();
        });
      },
      async pull(controller) {
        try {
          const { done, value } = await events.next();
          if (isOver) return;
          if (done) {
            finish();
            if (wire.end) controller.enqueue(toBytes(wire.end()));
            return controller.close();
          }
          silence?.refresh();
          controller.enqueue(toBytes(wire.encode(value)));
        } catch (error) {
          if (isOver) return;
          finish();
          onError(error);
          breakOff(controller, error);
        }
      },
      cancel: abandon,
    },
    { highWaterMark: 1 },
  );
  c.set('isStream', true);
  return c.body(body, 200, headers);
};
