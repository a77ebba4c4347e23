import { CodeBoxError } from '#contract';
import { leaseMs, type TaskStore } from '../store/tasks.ts';
import type { Background } from './background.ts';

export interface LeasesOptions {
  tasks: Pick<TaskStore, 'renew' | 'abandon'>;
  background: Background;
}

const renewMs = 5000;
/** After a task that failed, boxes are left alone for this long. */
const retryMs = 60_000;

/** Work on tasks of boxes: told to the others while it lasts, broken off when the task is not wanted any more. */
export const createLeases = ({ tasks, background }: LeasesOptions) => ({
  /**
   * Does the work of a task that has begun, for at most `forMs`. `work` ends the task itself; when it throws, the task is given up
   * and the box stays in its state. Throws what `work` threw, or `conflict` when the task was called off.
   */
  async run<T>(boxId: string, taskId: string, forMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const off = new AbortController();
    const late = AbortSignal.timeout(forMs);
    let aliveAt = performance.now();
    const renew = async () => {
      try {
        if (await tasks.renew(boxId, taskId)) aliveAt = performance.now();
        else off.abort(calledOff());
      } catch (cause) {
        // While the database is away nobody else takes the task either, until the lease is over.
        if (performance.now() - aliveAt > leaseMs - renewMs) off.abort(calledOff(cause));
      }
    };
    const timer = setInterval(() => void renew(), renewMs);
    try {
      return await work(AbortSignal.any([off.signal, late, background.signal]));
    } catch (error) {
      const isConflict = error instanceof CodeBoxError && error.code === 'conflict';
      await background.attempt('give up a task', () =>
        tasks.abandon(boxId, taskId, isConflict || off.signal.aborted ? 0 : retryMs),
      );
      if (off.signal.aborted) throw off.signal.reason;
      if (late.aborted) throw new CodeBoxError('timeout', 'That took too long.', { cause: error });
      throw error;
    } finally {
      clearInterval(timer);
    }
  },
});

export type Leases = ReturnType<typeof createLeases>;

/** Somebody used, changed or deleted the box. */
export const calledOff = (cause?: unknown) =>
  new CodeBoxError('conflict', 'The box was used meanwhile.', { cause, retryAfterSeconds: 1 });
