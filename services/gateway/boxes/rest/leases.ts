import { CodeBoxError, hasCode } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import { leaseMs, type TaskStore } from '../../store/box/tasks.ts';

export interface LeasesOptions {
  tasks: Pick<TaskStore, 'renew' | 'abandon'>;
  background: Background;
}

const renewMs = 5000;

export interface LeaseOptions {
  boxId: string;
  taskId: string;
  forMs: number;
  /** How long nothing begins by itself after a failure; asked once it has failed. */
  retryMs: () => number;
}

/**
 * Thrown by work that could not undo what it had begun: its task is not given up but left to whoever takes it over, which tries
 * again.
 */
export class Unfinished extends Error {
  override name = 'Unfinished';
  constructor(cause: unknown) {
    super('What was begun could not be undone.', { cause });
  }
}

/** Work on tasks of boxes: told to the others while it lasts, broken off when the task is not wanted any more. */
export const createLeases = ({ tasks, background }: LeasesOptions) => ({
  /**
   * Does the work of a task that has begun, for at most `forMs`. `work` ends the task itself; when it throws, the task is given up,
   * the box stays in its state and is left alone for `retryMs`. Throws what `work` threw, or `conflict` when the task was called
   * off.
   */
  async run<T>({ boxId, taskId, forMs, retryMs }: LeaseOptions, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
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
    } catch (thrown) {
      const error = thrown instanceof Unfinished ? thrown.cause : thrown;
      const isUsed = hasCode(error, 'conflict', 'code_running') || hasCode(error, 'conflict', 'task_called_off');
      const isCut = isUsed || off.signal.aborted || background.signal.aborted;
      let isWanted = true;
      await background.attempt('give up a task', async () => {
        if (thrown !== error) throw thrown;
        isWanted = await tasks.abandon(boxId, taskId, isCut ? 0 : retryMs());
      });
      if (off.signal.aborted) throw off.signal.reason;
      // What it met in a box that somebody has ended or used meanwhile says nothing about the box.
      if (!isWanted) throw calledOff(error);
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
  new CodeBoxError('conflict', 'The box was used meanwhile.', {
    cause,
    reason: 'task_called_off',
    retryAfterSeconds: 1,
  });
