import { setTimeout as sleep } from 'node:timers/promises';
import { type Cause, CodeBoxError, hasCode, type WatchEvent, type WatchQuery, watchEventSchema } from '#contract';
import { brokenProtocol } from '../../box-server/broken-protocol.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import type { Lifecycle } from '../life/lifecycle.ts';

const retryDelaysMs = [50, 200, 500, 1000, 2000, 4000];
/** Each connection is bounded in bytes; a box that breaks them off without a change in between is given up. */
const maxFruitless = retryDelaysMs.length;

/** Changes of the files of a box, as long as somebody reads. */
export const createFileWatch = ({ lifecycle, activity }: { lifecycle: Lifecycle; activity: Activity }) => {
  /** Undefined when trying again makes sense. */
  const causeOf = async (ref: BoxRef, error: unknown): Promise<Cause | undefined> => {
    if (hasCode(error, 'unavailable', 'protocol')) throw error;
    if (hasCode(error, 'unavailable')) return await lifecycle.whyGone(ref);
    // As long as a stream may be: it goes on in the next one.
    if (hasCode(error, 'too_large')) return undefined;
    throw error;
  };

  async function* follow(
    ref: BoxRef,
    query: WatchQuery,
    opened: AsyncIterable<unknown>,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent> {
    const { server } = await lifecycle.use(ref);
    let source: AsyncIterable<unknown> | undefined = opened;
    let version: number | undefined;
    for (let fruitless = 0; ; fruitless += 1) {
      try {
        source ??= await server.watch(toSearch({ ...query, after: version }), signal);
        for await (const value of source) {
          const event = readEvent(value, version);
          // That a broken stream was taken up again is nothing that its reader has to know.
          if (event.type === 'ready' && version !== undefined) continue;
          version = event.version;
          if (event.type !== 'ready') fruitless = 0;
          yield event;
          if (event.type === 'reset' && event.reason === 'slow') return;
        }
      } catch (error) {
        signal.throwIfAborted();
        const cause = await causeOf(ref, error);
        if (cause) return yield { version: version ?? 0, type: 'end', cause };
      }
      source = undefined;
      const delay = retryDelaysMs[fruitless];
      if (fruitless >= maxFruitless || delay === undefined)
        throw new CodeBoxError('unavailable', 'The box does not answer.', { retryAfterSeconds: 5 });
      await sleep(delay, undefined, { signal });
    }
  }

  return {
    /** Begins a watch, and throws what the box refuses. The events come until the box is gone or `signal` fires. */
    async open(ref: BoxRef, query: WatchQuery, signal: AbortSignal): Promise<AsyncGenerator<WatchEvent>> {
      const { server } = await lifecycle.use(ref);
      const opened = await server.watch(toSearch(query), signal);
      return held(follow(ref, query, opened, signal), () => activity.hold(ref.box));
    },
  };
};

export type FileWatch = ReturnType<typeof createFileWatch>;

async function* held<T>(events: AsyncGenerator<T>, hold: () => () => void): AsyncGenerator<T> {
  const release = hold();
  try {
    yield* events;
  } finally {
    release();
  }
}

const toSearch = ({ path = '', recursive = 'true', after }: WatchQuery): string =>
  `?${new URLSearchParams({ path, recursive, ...(after !== undefined && { after: String(after) }) })}`;

const readEvent = (value: unknown, last: number | undefined): WatchEvent => {
  const parsed = watchEventSchema.safeParse(value);
  const isFirst = last === undefined;
  if (parsed.success && parsed.data.type !== 'end' && isFirst === (parsed.data.type === 'ready')) return parsed.data;
  if (parsed.success && parsed.data.type === 'ready') return parsed.data;
  throw brokenProtocol('The box sent an event that makes no sense.', parsed.error);
};
