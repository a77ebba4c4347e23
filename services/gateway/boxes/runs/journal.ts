import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import { type Cause, CodeBoxError, type CommandEvent, type ExecutionEvent, hasCode, isUnavailable } from '#contract';
import type { BoxServerClient } from '../../box-server/client.ts';
import type { JournalPath } from '../../box-server/journals/shared-journals.ts';
import { brokenProtocol } from '../../box-server/protocol/broken-protocol.ts';
import { noEnd } from './run-clock.ts';

type Truncated = Extract<ExecutionEvent, { type: 'truncated' }>;

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
  /** Resolves with why the box is gone; undefined while it is not. Throws `unavailable` when that is unknown for now. */
  causeOfLoss: () => Promise<Cause | undefined>;
  /** Returns the last event of a run whose end is unknown. */
  lost: (seq: number, cause: Cause) => E | Promise<E>;
  signal?: AbortSignal | undefined;
  /** Aborted when the gateway stops waiting for the box: the last event is then `lost`. */
  overdue?: AbortSignal;
}

/** Why a run is lost of which its box has no record. */
export const journalLost: Cause = { code: 'journal_lost', detail: 'The box has no record of this run.' };

const retryDelaysMs = [50, 200, 500, 1000, 2000, 4000];
/** For a box whose state is unknown, because the database or the driver is away. */
const unknownDelayMs = 2000;
const maxUnknownMs = 120_000;
/** The most connections that a box may close early, one after the other. Each is bounded in bytes. */
const maxConnections = 50;

/**
 * Yields the events of a journal in order, each once, up to `done`. Resumes a broken connection where it broke. When the box is gone or
 * no longer has the run, the last event is `lost`. Throws `unavailable` when the box exists but does not respond for about 8 s, its
 * node is silent, or its state is unknown for 2 min: the caller may then read the events again later.
 */
export async function* follow<E extends NumberedEvent>(options: FollowOptions<E>): AsyncGenerator<E> {
  const { server, journal, schema, causeOfLoss, lost, signal, overdue } = options;
  // A stream that is open already ends by its own signal, so most runs need no other.
  const leave = () => AbortSignal.any([signal, overdue].filter((one) => one !== undefined));
  let seq = options.after;
  let source = options.opened;
  let connections = 0;
  let unknownSince: number | undefined;
  for (let attempt = 0; ; ) {
    if (connections >= maxConnections) {
      yield await lost(seq + 1, { code: 'protocol_error', detail: 'The box repeatedly interrupted its events.' });
      return;
    }
    try {
      source ??= await server.events(journal, seq, leave());
      connections += 1;
      for await (const value of source) {
        const event = readEvent(schema, value, seq);
        seq = event.seq;
        attempt = 0;
        unknownSince = undefined;
        yield event;
        if (event.type === 'done') return;
      }
    } catch (error) {
      signal?.throwIfAborted();
      const cause = overdue?.aborted ? noEnd : await causeOf(error, causeOfLoss);
      if (cause !== undefined && cause !== 'unknown') {
        yield await lost(seq + 1, cause);
        return;
      }
      unknownSince = cause === 'unknown' ? (unknownSince ?? performance.now()) : undefined;
    }
    // The stream ended early, or the box does not respond for now.
    source = undefined;
    const isUnknown = unknownSince !== undefined && performance.now() - unknownSince < maxUnknownMs;
    const delay = retryDelaysMs[attempt] ?? (isUnknown ? unknownDelayMs : undefined);
    attempt += 1;
    if (delay === undefined)
      throw new CodeBoxError('unavailable', 'The box does not respond.', { retryAfterSeconds: 5 });
    // An abort cuts the pause short, and the next attempt throws.
    await sleep(delay, undefined, { signal: leave() }).catch(() => {});
  }
}

/** Events that many readers get are checked for the first of them. A journal has one schema. */
const checked = new WeakMap<object, NumberedEvent>();

const readEvent = <E extends NumberedEvent>(schema: z.ZodType<E>, value: unknown, seq: number): E => {
  const key = typeof value === 'object' ? value : null;
  const known = key && (checked.get(key) as E | undefined);
  const parsed = known ? { success: true as const, data: known } : schema.safeParse(value);
  if (!parsed.success || parsed.data.seq !== seq + 1)
    throw brokenProtocol('The box sent an event that makes no sense.', parsed.error ?? { after: seq });
  if (key && !known) checked.set(key, parsed.data);
  return parsed.data;
};

type Diagnosis = Cause | 'unknown' | undefined;

/** Returns why the box is gone; undefined or `unknown` when a retry makes sense. */
const causeOf = async (error: unknown, causeOfLoss: () => Promise<Cause | undefined>): Promise<Diagnosis> => {
  const diagnose = (): Promise<Diagnosis> =>
    causeOfLoss().catch((error: unknown) => {
      if (isUnavailable(error) && !hasCode(error, 'unavailable', 'node_silent')) return 'unknown';
      throw error;
    });
  if (hasCode(error, 'unavailable', 'protocol') || hasCode(error, 'too_large'))
    return { code: 'protocol_error', detail: error.message };
  if (hasCode(error, 'unavailable')) return await diagnose();
  if (hasCode(error, 'not_found')) return (await diagnose()) ?? journalLost;
  throw error;
};

/** How much text `readUpTo` collects: as much as most runs may have. */
const maxTextLength = 8 * 1024 * 1024;

/** Collects the events up to the one with this number. Longer text is cut, with one `truncated` in place of its end. */
export const readUpTo = async <E extends ExecutionEvent | CommandEvent>(
  events: AsyncIterable<E>,
  lastSeq: number,
): Promise<(E | Truncated)[]> => {
  const found: (E | Truncated)[] = [];
  if (lastSeq === 0) return found;
  let room = maxTextLength;
  let cut: Truncated | undefined;
  for await (const event of events) {
    const text = event.type === 'stdout' || event.type === 'stderr' ? event.text : '';
    room -= text.length;
    if (text === '' || room >= 0) found.push(event);
    else {
      if (!cut) {
        cut = { type: 'truncated', seq: event.seq, droppedBytes: 0, droppedEvents: 0 };
        found.push(cut);
      }
      cut.droppedBytes += Buffer.byteLength(text);
      cut.droppedEvents += 1;
    }
    if (event.seq >= lastSeq) break;
  }
  return found;
};
