import type { z } from 'zod';
import { CodeBoxError, hasCode } from '../problems/errors.ts';
import { type CallOptions, parse, pause } from './transport.ts';

/** The gateway pings after 15 s of silence, so a connection that is silent for this long is dead. */
const silenceMs = 45_000;
/** In UTF-16 units; no event is longer. */
const maxLine = 64 * 1024 * 1024;
const maxFailures = 10;
/** The beginning of a line from the gateway itself, as opposed to one from the source of the stream. */
const closingLine = '{"type":"closing",';
const maxPauseSeconds = 5;

/** How the events of a stream are counted. */
export interface Counting<E> {
  position: (event: E) => number;
  /** Whether the reader has seen this event already. */
  isRepeated: (event: E, seen: number) => boolean;
  isLast: (event: E) => boolean;
}

export interface Follow<E> {
  schema: z.ZodType<E>;
  counting: Counting<E>;
  /** A stream that is open already; without it, `open` opens one. */
  first?: Response;
  /** Opens the stream after an event, or from its beginning. */
  open: (after: number | undefined) => Promise<Response>;
  /** The last event that the caller has seen. */
  after?: number;
  signal?: CallOptions['signal'];
}

/** The events of a run: from 1 without gaps, up to `done`. */
export const bySeq: Counting<{ seq: number; type: string }> = {
  position: ({ seq }) => seq,
  isRepeated: ({ seq }, seen) => seq <= seen,
  isLast: ({ type }) => type === 'done',
};

/**
 * The events of a stream up to the last one, each once. A stream that is cut is resumed after the last event; after
 * ten attempts without a new event this throws `unavailable` or `timeout`. Leaving the loop closes the stream, but not
 * the run behind it.
 */
export async function* followEvents<E>(follow: Follow<E>): AsyncGenerator<E, void, undefined> {
  const { schema, counting, open, signal } = follow;
  let seen = follow.after;
  let response = follow.first;
  let hasBegun = response !== undefined;
  for (let failures = 0; ; failures++) {
    try {
      response ??= await open(seen);
      hasBegun = true;
      // 204: the run has ended and no events follow.
      if (response.body === null) return;
      for await (const line of readLines(response.body, signal)) {
        if (line === '') continue;
        // The gateway is about to stop: another gateway, or the next one, continues.
        if (line.startsWith(closingLine)) break;
        const event = parse(schema, line);
        if (seen !== undefined && counting.isRepeated(event, seen)) continue;
        seen = counting.position(event);
        failures = 0;
        yield event;
        if (counting.isLast(event)) return;
      }
    } catch (error) {
      signal?.throwIfAborted();
      // Whoever waits for the beginning of a stream is told that it is late; one that has begun is resumed.
      const isCut = hasCode(error, 'unavailable') || (hasBegun && hasCode(error, 'timeout'));
      if (!isCut || failures >= maxFailures) throw error;
    }
    if (failures >= maxFailures) throw new CodeBoxError('unavailable', 'The stream breaks off repeatedly.');
    response = undefined;
    await pause(Math.min(0.1 * 2 ** failures, maxPauseSeconds), signal);
  }
}

/**
 * The lines of a body. Text after the last line end is dropped, as it is incomplete. Throws `unavailable` when the body
 * breaks off or stays silent for 45 s.
 */
export async function* readLines(
  body: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let begun: string[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await readChunk(reader, signal);
      if (done) return;
      const [head = '', ...lines] = decoder.decode(value, { stream: true }).split('\n');
      begun.push(head);
      length += head.length;
      for (const line of lines) {
        yield begun.join('');
        begun = [line];
        length = line.length;
      }
      if (length > maxLine) throw new CodeBoxError('internal', 'The gateway sent an endless line.');
    }
  } finally {
    // An interrupted body needs no cancelling.
    await reader.cancel().catch(() => {});
  }
}

const readChunk = async (reader: ReadableStreamDefaultReader<Uint8Array>, signal: AbortSignal | undefined) => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error('the connection is silent')), silenceMs);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    throw new CodeBoxError('unavailable', 'The stream was interrupted.', { cause });
  } finally {
    clearTimeout(timer);
  }
};
