import { setTimeout as sleep } from 'node:timers/promises';
import { type ExecutionDone, isUnavailable } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { ExecutionEnd, ExecutionRow, ExecutionStore } from '../../store/box/executions.ts';

export interface RecorderOptions {
  executions: Pick<ExecutionStore, 'finish'>;
  /** Writes the end of a run as a use of its box. */
  touch: (boxIds: string[]) => Promise<unknown>;
  background: Background;
  /** Reports every execution whose end was recorded here. */
  onFinish?: (done: ExecutionDone, language: string | null) => void;
  /** Reports ends that could not be kept until the database is back. */
  onDrop?: (count: number) => void;
}

/** How long an end waits for others to be written in the same statement. */
export const togetherMs = 20;
const longestPauseMs = 2000;
const pageSize = 500;
/** The most that is kept while the database is away. */
const maxKept = 10_000;
const maxKeptBytes = 16 * 1024 * 1024;

/**
 * Records how executions ended, those of some milliseconds in one statement. While the database is away it keeps up to 10,000 ends or
 * 16 MiB and writes them when the database is back. An end beyond that is not lost: its box has it, and a sweep reads it there.
 */
export const createRecorder = ({ executions, touch, background, onFinish, onDrop }: RecorderOptions) => {
  let due: ExecutionEnd[] = [];
  let writing: Promise<void> = Promise.resolve();
  let isScheduled = false;
  const sizes = new WeakMap<ExecutionEnd, number>();

  const sizeOf = (end: ExecutionEnd): number => {
    const size = sizes.get(end) ?? Buffer.byteLength(JSON.stringify(end));
    sizes.set(end, size);
    return size;
  };

  const finish = async (ends: readonly ExecutionEnd[]) => {
    const recorded = new Set(await executions.finish(ends));
    for (const { id, done, language } of ends) if (recorded.has(id)) onFinish?.(done, language);
  };

  /** Puts ends that could not be written back, before those that have come since. */
  const keep = (ends: readonly ExecutionEnd[]) => {
    const all = [...ends, ...due];
    let bytes = 0;
    due = all.slice(0, maxKept).filter((end) => {
      bytes += sizeOf(end);
      return bytes <= maxKeptBytes;
    });
    if (due.length < all.length) onDrop?.(all.length - due.length);
  };

  const write = async (ends: readonly ExecutionEnd[]) => {
    // The use comes first: a running execution keeps its box from being idle, and a finished one does not.
    await touch([...new Set(ends.map((end) => end.boxId))]);
    await finish(ends).catch(async (error: unknown) => {
      if (ends.length === 1 || isUnavailable(error)) throw error;
      // An end that the database refuses must not hold up those of other boxes.
      for (const end of ends) await background.attempt('record the end of an execution', () => finish([end]));
    });
  };

  /** Writes what is due at first. Ends that come meanwhile wait for the next turn: under load there are always some. */
  const writeDue = async () => {
    for (let left = due.length; left > 0; left -= pageSize) {
      const page = due.splice(0, Math.min(left, pageSize));
      try {
        await write(page);
      } catch (error) {
        if (isUnavailable(error)) keep(page);
        throw error;
      }
    }
  };

  /** Waits for the write under way too, because callers rely on everything that was recorded before. */
  const flush = (): Promise<void> => {
    writing = writing.catch(() => {}).then(writeDue);
    return writing;
  };

  /** Writes until nothing is due. */
  const writeAll = async () => {
    let pauseMs = togetherMs;
    while (due.length > 0 && !background.signal.aborted) {
      await sleep(pauseMs, undefined, { signal: background.signal }).catch(() => {});
      const isWritten = await background.attempt('record the ends of executions', flush);
      pauseMs = isWritten ? togetherMs : Math.min(longestPauseMs, pauseMs * 4);
    }
    isScheduled = false;
  };

  return {
    record({ id, boxId, context, language }: ExecutionRow, done: ExecutionDone, where = { context, language }): void {
      due.push({ id, boxId, done, ...where });
      if (due.length > maxKept) keep([]);
      if (isScheduled) return;
      isScheduled = true;
      background.run('record the ends of executions', writeAll);
    },

    /** Writes the pending ends at once. When that fails, it throws and keeps them. */
    flush,
  };
};

export type Recorder = ReturnType<typeof createRecorder>;
