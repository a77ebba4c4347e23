import { setTimeout as sleep } from 'node:timers/promises';
import { type Cause, CodeBoxError, hasCode, type WatchEvent, type WatchQuery, watchEventSchema } from '#contract';
import { brokenProtocol } from '../../box-server/protocol/broken-protocol.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import type { Endings } from '../life/endings.ts';

const retryDelaysMs = [50, 200, 500, 1000, 2000, 4000];
/** The most consecutive connections that a box may close without sending a change. Each is bounded in bytes. */
const maxFruitless = retryDelaysMs.length;

/** How long a box may take to list changes. */
const changesMs = 20_000;

/** A change of one file. */
export type FileChange = Extract<WatchEvent, { path: string }>;

export interface FileWatchOptions {
  access: Pick<Access, 'use'>;
  endings: Pick<Endings, 'causeOfLoss'>;
  activity: Pick<Activity, 'hold'>;
}

/** Streams changes of the files of a box, as long as a caller reads them. */
export const createFileWatch = ({ access, endings, activity }: FileWatchOptions) => {
  /** Returns why the box is gone; undefined when a retry makes sense. */
  const causeOf = async (ref: BoxRef, error: unknown): Promise<Cause | undefined> => {
    if (hasCode(error, 'unavailable', 'protocol')) throw error;
    if (hasCode(error, 'unavailable')) return await endings.causeOfLoss(ref);
    // The stream reached its maximum length: the next one continues it.
    if (hasCode(error, 'too_large')) return undefined;
    throw error;
  };

  async function* follow(
    ref: BoxRef,
    query: WatchQuery,
    opened: AsyncIterable<unknown>,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent> {
    const { server } = await access.use(ref);
    let source: AsyncIterable<unknown> | undefined = opened;
    let version: number | undefined;
    for (let fruitless = 0; ; fruitless += 1) {
      try {
        source ??= await server.watch(toSearch({ ...query, after: version }), signal);
        for await (const value of source) {
          const event = readEvent(value, version);
          // The reader need not know that a broken stream was resumed.
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
        throw new CodeBoxError('unavailable', 'The box does not respond.', { retryAfterSeconds: 5 });
      await sleep(delay, undefined, { signal });
    }
  }

  return {
    /**
     * Returns the version of the files now, and their changes since `after`; without it, none. The changes are undefined when they are no
     * longer known.
     */
    async changes(ref: BoxRef, query: WatchQuery): Promise<{ version: number; changes: FileChange[] | undefined }> {
      const { server } = await access.use(ref);
      const [changes, release]: [FileChange[], () => void] = [[], activity.hold(ref.box)];
      let version: number | undefined;
      try {
        for await (const value of await server.changes(toSearch(query), AbortSignal.timeout(changesMs))) {
          const event = readEvent(value, version);
          if (event.type === 'reset') return { version: event.version, changes: undefined };
          if ('path' in event) changes.push(event);
          else version = event.version;
        }
      } finally {
        release();
      }
      if (version === undefined) throw brokenProtocol('The box sent no version of its files.');
      return { version, changes };
    },

    /** Begins a watch; throws the box's refusal, if any. Events follow until the box is gone or `signal` fires. */
    async open(ref: BoxRef, query: WatchQuery, signal: AbortSignal): Promise<AsyncGenerator<WatchEvent>> {
      const { server } = await access.use(ref);
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
