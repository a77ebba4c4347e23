import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionDone } from '#contract';
import type { ExecutionEnd, ExecutionRow, ExecutionStore } from '../store/executions.ts';
import type { Background } from './background.ts';

export interface RecorderOptions {
  executions: Pick<ExecutionStore, 'finish'>;
  /** The end of a run counts as use of its box. */
  touch: (boxIds: string[]) => Promise<unknown>;
  background: Background;
  /** Told of every execution whose end was recorded here. */
  onFinish?: (done: ExecutionDone, language: string | null) => void;
}

const togetherMs = 20;

/**
 * Writes how executions ended, the ends of some milliseconds in one statement. An end that cannot be written is not lost: the
 * box keeps it, and the next sweep reads it there.
 */
export const createRecorder = ({ executions, touch, background, onFinish }: RecorderOptions) => {
  let due: ExecutionEnd[] = [];

  const finish = async (ends: readonly ExecutionEnd[]) => {
    const recorded = new Set(await executions.finish(ends));
    for (const { id, done, language } of ends) if (recorded.has(id)) onFinish?.(done, language);
  };

  const flush = async () => {
    const ends = due;
    due = [];
    if (ends.length === 0) return;
    // First, because a box counts as used while its run is still running.
    await touch([...new Set(ends.map((end) => end.boxId))]);
    await finish(ends).catch(async (error: unknown) => {
      if (ends.length === 1) throw error;
      // What one box sent must not keep back what the others did.
      for (const end of ends) await background.attempt('record the end of an execution', () => finish([end]));
    });
  };

  return {
    record({ id, boxId, context, language }: ExecutionRow, done: ExecutionDone, where = { context, language }): void {
      due.push({ id, boxId, done, ...where });
      if (due.length > 1) return;
      background.run('record the ends of executions', async () => {
        await sleep(togetherMs);
        await flush();
      });
    },

    /** Writes at once what is due. */
    flush,
  };
};

export type Recorder = ReturnType<typeof createRecorder>;
