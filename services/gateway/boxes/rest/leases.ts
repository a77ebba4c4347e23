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
  /** Returns how long no task begins automatically after a failure. Called once the task has failed. */
  retryMs: () => number;
}

/**
 * Thrown by a task that failed and could not undo what it had begun. The task is not abandoned: the gateway that takes it over later
 * tries again.
 */
export class RollbackFailed extends Error {
  override name = 'RollbackFailed';
  constructor(cause: unknown) {
    super('What the task had begun could not be undone.', { cause });
  }
}

/** Runs tasks of boxes under leases, which show other gateways that the task is under way. */
export const createLeases = ({ tasks, background }: LeasesOptions) => ({
  /**
   * Runs the work of a task that has begun, for at most `forMs`. `work` completes the task itself. When it throws, the task is
   * abandoned, the box stays in its state, and no task begins by itself for `retryMs`. Throws what `work` threw, or `conflict` when the
   * task was canceled.
   */
  async run<T>({ boxId, taskId, forMs, retryMs }: LeaseOptions, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const canceled = new AbortController();
    const late = AbortSignal.timeout(forMs);
    let aliveAt = performance.now();
    const renew = async () => {
      try {
        if (await tasks.renew(boxId, taskId)) aliveAt = performance.now();
        else canceled.abort(canceledError());
      } catch (cause) {
        // While the database is away no other gateway can take the task over, until the lease expires.
        if (performance.now() - aliveAt > leaseMs - renewMs) canceled.abort(canceledError(cause));
      }
    };
    const timer = setInterval(() => void renew(), renewMs);
    try {
      return await work(AbortSignal.any([canceled.signal, late, background.signal]));
    } catch (thrown) {
      const error = thrown instanceof RollbackFailed ? thrown.cause : thrown;
      const isInUse = hasCode(error, 'conflict', 'code_running') || hasCode(error, 'conflict', 'task_called_off');
      const isInterrupted = isInUse || canceled.signal.aborted || background.signal.aborted;
      let isCurrent = true;
      await background.attempt('abandon a task', async () => {
        if (thrown !== error) throw thrown;
        isCurrent = await tasks.abandon(boxId, taskId, isInterrupted ? 0 : retryMs());
      });
      if (canceled.signal.aborted) throw canceled.signal.reason;
      // The box was ended or used meanwhile, so the error says nothing about it.
      if (!isCurrent) throw canceledError(error);
      if (late.aborted) throw new CodeBoxError('timeout', 'That took too long.', { cause: error });
      throw error;
    } finally {
      clearInterval(timer);
    }
  },
});

export type Leases = ReturnType<typeof createLeases>;

/** Returns the error of a task whose box was used, changed or deleted meanwhile. */
export const canceledError = (cause?: unknown) =>
  new CodeBoxError('conflict', 'The box was used meanwhile.', {
    cause,
    reason: 'task_called_off',
    retryAfterSeconds: 1,
  });
