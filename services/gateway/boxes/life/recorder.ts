import { setTimeout as sleep } from 'node:timers/promises';
import { type ExecutionDone, isUnavailable } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { ExecutionEnd, ExecutionRow, ExecutionStore } from '../../store/box/executions.ts';

export interface RecorderOptions {
  executions: Pick<ExecutionStore, 'finish'>;
  /** The end of a run counts as use of its box. */
  touch: (boxIds: string[]) => Promise<unknown>;
  background: Background;
  /** Told of every execution whose end was recorded here. */
  onFinish?: (done: ExecutionDone, language: string | null) => void;
  /** Told of ends that could not be kept until the database is back. */
  onDrop?: (count: number) => void;
}

/** Ends wait for so long to be written together. */
export const togetherMs = 20;
const longestPauseMs = 2000;
const pageSize = 500;
/** What is kept while the database is away. */
const maxKept = 10_000;
const maxKeptBytes = 16 * 1024 * 1024;

/**
 * Writes how executions ended, the ends of some milliseconds in one statement. While the database is away they are kept, up to
 * 10,000 or 16 MiB, and written when it is back. An end that cannot be kept is not lost either: its box knows it, and the next
 * sweep reads it there.
 */
export const createRecorder = ({ executions, touch, background, onFinish, onDrop }: RecorderOptions) => {
  let due: ExecutionEnd[] = [];
  let writing: Promise<void> = Promise.resolve();
  let isAwake = false;
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

  /** Puts back what could not be written, before what has come since. */
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
    // First, because a box counts as used while its run is still running.
    await touch([...new Set(ends.map((end) => end.boxId))]);
    await finish(ends).catch(async (error: unknown) => {
      if (ends.length === 1 || isUnavailable(error)) throw error;
      // What one box sent must not keep back what the others did.
      for (const end of ends) await background.attempt('record the end of an execution', () => finish([end]));
    });
  };

  const writeDue = async () => {
    while (due.length > 0) {
      const page = due.splice(0, pageSize);
      try {
        await write(page);
      } catch (error) {
        if (isUnavailable(error)) keep(page);
        throw error;
      }
    }
  };

  /** After what is being written already: who waits for this relies on all of it. */
  const flush = (): Promise<void> => {
    writing = writing.catch(() => {}).then(writeDue);
    return writing;
  };

  /** Until nothing is due any more. */
  const writeAll = async () => {
    let pauseMs = togetherMs;
    while (due.length > 0 && !background.signal.aborted) {
      await sleep(pauseMs, undefined, { signal: background.signal }).catch(() => {});
      const isWritten = await background.attempt('record the ends of executions', flush);
      pauseMs = isWritten ? togetherMs : Math.min(longestPauseMs, pauseMs * 4);
    }
    isAwake = false;
  };

  return {
    record({ id, boxId, context, language }: ExecutionRow, done: ExecutionDone, where = { context, language }): void {
      due.push({ id, boxId, done, ...where });
      if (due.length > maxKept) keep([]);
      if (isAwake) return;
      isAwake = true;
      background.run('record the ends of executions', writeAll);
    },

    /** Writes at once what is due; throws when it cannot, and keeps it. */
    flush,
  };
};

export type Recorder = ReturnType<typeof createRecorder>;
