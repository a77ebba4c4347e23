import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import { type Cause, CodeBoxError, hasCode, isUnavailable } from '#contract';
import { brokenProtocol } from '../../box-server/broken-protocol.ts';
import type { BoxServerClient } from '../../box-server/client.ts';
import type { JournalPath } from '../../box-server/shared-journals.ts';
import { noEnd } from './run-clock.ts';

interface NumberedEvent {
  seq: number;
  type: string;
}

export interface FollowOptions<E extends NumberedEvent> {
  server: BoxServerClient;
  journal: JournalPath;
  schema: z.ZodType<E>;
  /** Events after this one. */
  after: number;
  /** A stream that is already open and starts after `after`. */
  opened?: AsyncIterable<unknown>;
  /** Why the box is gone, or undefined while it is still there. Throws `unavailable` when that cannot be told now. */
  whyGone: () => Promise<Cause | undefined>;
  /** The last event of a run whose end nobody knows. */
  lost: (seq: number, cause: Cause) => E | Promise<E>;
  signal?: AbortSignal | undefined;
  /** Aborted when the box is not waited for any more: then the last event is the `lost` one. */
  overdue?: AbortSignal;
}

const retryDelaysMs = [50, 200, 500, 1000, 2000, 4000];
/** For a box of which nobody can tell whether it is there, because the database or the driver is away. */
const untoldDelayMs = 2000;
const untoldMs = 120_000;
/** Each connection is bounded in bytes, so their number is what bounds a box that breaks them off again and again. */
const maxConnections = 50;

/**
 * The events of a journal in order, each once, to `done`. A broken connection is taken up again where it broke. When the
 * box is gone, or has forgotten the run, the last event is the `lost` one. Throws `unavailable` when the box is there but
 * does not answer for about 8 s, or nobody can tell for 2 min whether it is: then the events can be asked for again later.
 */
export async function* follow<E extends NumberedEvent>(options: FollowOptions<E>): AsyncGenerator<E> {
  const { server, journal, schema, whyGone, lost, signal, overdue } = options;
  const leave = AbortSignal.any([signal, overdue].filter((one) => one !== undefined));
  let seq = options.after;
  let source = options.opened;
  let connections = 0;
  let untoldSince: number | undefined;
  for (let attempt = 0; ; ) {
    if (connections >= maxConnections) {
      yield await lost(seq + 1, { code: 'protocol_error', detail: 'The box broke off its events again and again.' });
      return;
    }
    try {
      source ??= await server.events(journal, seq, leave);
      connections += 1;
      for await (const value of source) {
        const event = readEvent(schema, value, seq);
        seq = event.seq;
        attempt = 0;
        untoldSince = undefined;
        yield event;
        if (event.type === 'done') return;
      }
    } catch (error) {
      signal?.throwIfAborted();
      const cause = overdue?.aborted ? noEnd : await causeOf(error, whyGone);
      if (cause !== undefined && cause !== 'untold') {
        yield await lost(seq + 1, cause);
        return;
      }
      untoldSince = cause === 'untold' ? (untoldSince ?? performance.now()) : undefined;
    }
    // The stream ended early, or the box does not answer just now.
    source = undefined;
    const isUntold = untoldSince !== undefined && performance.now() - untoldSince < untoldMs;
    const delay = retryDelaysMs[attempt] ?? (isUntold ? untoldDelayMs : undefined);
    attempt += 1;
    if (delay === undefined)
      throw new CodeBoxError('unavailable', 'The box does not answer.', { retryAfterSeconds: 5 });
    // Cut short when it is over, which the next attempt finds out.
    await sleep(delay, undefined, { signal: leave }).catch(() => {});
  }
}

const readEvent = <E extends NumberedEvent>(schema: z.ZodType<E>, value: unknown, seq: number): E => {
  const parsed = schema.safeParse(value);
  if (parsed.success && parsed.data.seq === seq + 1) return parsed.data;
  throw brokenProtocol('The box sent an event that makes no sense.', parsed.error ?? { after: seq });
};

type Told = Cause | 'untold' | undefined;

/** Undefined or `untold` when trying again makes sense. */
const causeOf = async (error: unknown, whyGone: () => Promise<Cause | undefined>): Promise<Told> => {
  const ask = (): Promise<Told> =>
    whyGone().catch((untold: unknown) => (isUnavailable(untold) ? 'untold' : Promise.reject(untold)));
  if (hasCode(error, 'unavailable', 'protocol') || hasCode(error, 'too_large'))
    return { code: 'protocol_error', detail: error.message };
  if (hasCode(error, 'unavailable')) return await ask();
  if (hasCode(error, 'not_found')) {
    return (await ask()) ?? { code: 'journal_lost', detail: 'The box no longer knows this run.' };
  }
  throw error;
};

/** The events up to the one with this number. */
export const readUpTo = async <E extends NumberedEvent>(events: AsyncIterable<E>, lastSeq: number): Promise<E[]> => {
  const found: E[] = [];
  if (lastSeq === 0) return found;
  for await (const event of events) {
    found.push(event);
    if (event.seq >= lastSeq) break;
  }
  return found;
};
