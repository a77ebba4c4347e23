import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Task } from '../../store/box/tasks.ts';
import type { Store } from '../../store/store.ts';
import { trustMs } from '../life/access.ts';
import { cannotFreeze } from '../life/capabilities.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import { sampleOne } from '../usage/sample.ts';
import type { Checkpoints } from './checkpoints.ts';
import { calledOff, type Leases, Unfinished } from './leases.ts';

export interface HibernationOptions {
  driver: Driver;
  store: Pick<Store, 'tasks' | 'executions' | 'usage'>;
  connections: BoxConnections;
  lifecycle: Lifecycle;
  leases: Leases;
  checkpoints: Checkpoints;
  background: Background;
  /** Told of what was done, and how long it took. */
  onDone?: (task: Task, ms: number) => void;
}

/** What a task is to do besides its work. */
export interface Manner {
  /** How long the others have to learn of it before it begins. */
  settleMs: number;
  /** Give it up when the box was used since it began. */
  unused: boolean;
}

const freezeMs = 60_000;
const sampleMs = 2000;
/** After a task that failed nothing begins by itself for this long. */
const retryMs = 60_000;
/** Nor is it tried again to put files back, whoever asks for it. */
const restoreRetryMs = 5000;

/** What the files of a box may take on their way: half an hour for the usual disk, more for a larger one. */
export const filesMs = ({ limits }: Pick<BoxRow, 'limits'>): number => 600_000 + limits.diskMb * 1000;

/** Somebody asks for it: they know that they do not use the box otherwise. */
export const asked: Manner = { settleMs: trustMs + 250, unused: false };

/**
 * Boxes at rest: frozen with their memory, or as files in the blob store, and the ways back. Each step is a task, which begins
 * and ends by a compare-and-set, so a gateway may die at any point: the box is then in the state from before, and what was half
 * made is swept.
 */
export const createHibernation = (options: HibernationOptions) => {
  const { driver, store, connections, lifecycle, leases, checkpoints, background } = options;
  const { tasks } = store;

  const timed = async <T>(task: Task, work: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    const result = await work();
    options.onDone?.(task, performance.now() - startedAt);
    return result;
  };

  /** Throws `conflict` while code runs in the box. */
  const checkQuiet = async (boxId: string): Promise<void> => {
    const running = await store.executions.anyRunning(boxId);
    if (running !== undefined)
      throw new CodeBoxError('conflict', `The execution ${running} is running in the box.`, {
        reason: 'code_running',
      });
  };

  /** Requests that took the box for ready are let in, and later ones learn of the task before it begins. */
  const settle = async (boxId: string, { settleMs }: Manner, signal: AbortSignal): Promise<void> => {
    lifecycle.distrust(boxId);
    await sleep(settleMs, undefined, { signal });
    await checkQuiet(boxId);
  };

  const thaw = async (instance: string): Promise<void> => {
    await driver.thaw?.(instance, AbortSignal.timeout(freezeMs)).catch((cause: unknown) => {
      throw new Unfinished(cause);
    });
  };

  const freeze = async (box: BoxRow, taskId: string, instance: string, signal: AbortSignal): Promise<BoxRow> => {
    try {
      if (!driver.freeze) throw cannotFreeze();
      await driver.freeze(instance, signal);
      const paused = await tasks.markPaused(box.id, taskId);
      if (!paused) throw calledOff();
      return paused;
    } catch (error) {
      // What failed may have been done all the same: it is frozen if the row says so, and runs otherwise.
      const isOurs = await tasks.renew(box.id, taskId).catch((cause: unknown) => {
        throw new Unfinished(cause);
      });
      if (isOurs) await thaw(instance);
      throw error;
    }
  };

  const pause = (box: BoxRow, taskId: string, manner: Manner): Promise<BoxRow> => {
    const lease = { boxId: box.id, taskId, forMs: manner.settleMs + freezeMs, retryMs: () => retryMs };
    return leases.run(lease, async (signal) => {
      const { instance } = await lifecycle.instanceOf(box);
      await settle(box.id, manner, signal);
      if (!(await tasks.beginFreeze(box.id, taskId, manner.unused))) throw calledOff();
      const paused = await freeze(box, taskId, instance, signal);
      // Streams of a frozen box would wait in vain.
      connections.drop(instance);
      return paused;
    });
  };

  const halt = (box: BoxRow, taskId: string, onFrozen: () => Promise<void>): Promise<void> =>
    leases.run({ boxId: box.id, taskId, forMs: freezeMs, retryMs: () => 0 }, async (signal) => {
      const { instance } = await lifecycle.instanceOf(box);
      lifecycle.distrust(box.id);
      await freeze(box, taskId, instance, signal);
      await background.attempt('tell of a box that was frozen', onFrozen);
      connections.drop(instance);
    });

  const resume = (box: BoxRow, taskId: string): Promise<void> =>
    leases.run({ boxId: box.id, taskId, forMs: freezeMs, retryMs: () => 0 }, async (signal) => {
      const { instance } = await lifecycle.instanceOf(box);
      await driver.thaw?.(instance, signal);
      if (!(await tasks.markResumed(box.id, taskId))) throw calledOff();
    });

  /** Puts the files aside; with `hibernate` they are all that is left of the box. */
  const keep = async (box: BoxRow, taskId: string, manner: Manner, hibernate: boolean): Promise<BoxRow> => {
    const lease = { boxId: box.id, taskId, forMs: manner.settleMs + filesMs(box), retryMs: () => retryMs };
    const { kept, instance } = await leases.run(lease, async (signal) => {
      const { instance, server } = await lifecycle.instanceOf(box);
      await checkpoints.checkReach(box, signal);
      if (hibernate) await settle(box.id, manner, signal);
      const used = await sampleOne(driver, instance, sampleMs);
      const cpuMs = used?.cpuMs ?? (await store.usage.lastCpuMs(instance));
      const spentCpuMs = Math.max(0, Math.round(cpuMs) - (box.startupCpuMs ?? 0));
      const bytes = await checkpoints.put(box, taskId, server, signal);
      const { unused } = manner;
      const kept = await tasks.markKept(box.id, taskId, { bytes, spentCpuMs, hibernate, unused });
      if (kept) return { kept, instance };
      // Its record may be gone by now, so nobody else would find it soon.
      await checkpoints.discard(box.id, taskId);
      await checkQuiet(box.id);
      throw calledOff();
    });
    // It hibernates whether that succeeds or not: what is left of it is swept.
    if (hibernate) await background.attempt('end the instance of a box', () => lifecycle.destroyInstance(instance));
    return kept;
  };

  const restore = (box: BoxRow, taskId: string): Promise<void> => {
    /** What failed was not the want of room, which may end at any moment. */
    let isFilesFault = true;
    const lease = { boxId: box.id, taskId, forMs: filesMs(box), retryMs: () => (isFilesFault ? restoreRetryMs : 0) };
    return leases.run(lease, async (signal) => {
      // Before an instance is taken, which others may be waiting for.
      await checkpoints.checkKept(box, signal).catch(notPutBack);
      isFilesFault = false;
      const { instance, server } = await lifecycle.embody(box);
      try {
        isFilesFault = true;
        await checkpoints.restore(box, server, signal);
        if (!(await tasks.markRestored(box.id, taskId, instance))) throw calledOff();
        lifecycle.handOut(box, instance.id);
      } catch (cause) {
        const end = () => lifecycle.destroyInstance(instance.id);
        if (await tasks.dropInstance(instance.id)) await background.attempt('end the instance of a box', end);
        return notPutBack(cause);
      }
    });
  };

  return {
    pause: (box: BoxRow, taskId: string, manner: Manner) => timed('pause', () => pause(box, taskId, manner)),
    hibernate: (box: BoxRow, taskId: string, manner: Manner) =>
      timed('hibernate', () => keep(box, taskId, manner, true)),
    checkpoint: (box: BoxRow, taskId: string, manner: Manner) =>
      timed('checkpoint', () => keep(box, taskId, manner, false)),

    /** Freezes a box for which that has begun, with what runs there. `onFrozen`: once nothing can come from there any more. */
    halt: (box: BoxRow, taskId: string, onFrozen: () => Promise<void>) =>
      timed('freeze', () => halt(box, taskId, onFrozen)),

    /**
     * Begins to bring a resting box back and waits for it; false when somebody else does. `unavailable` at once while one is left
     * alone because its files could not be put back.
     */
    async wake(box: BoxRow): Promise<boolean> {
      if (box.state === 'hibernated' && box.retryAt !== null) {
        const seconds = Math.ceil(await tasks.pauseOf(box.id));
        if (seconds > 0) throw notPutBackError(seconds);
      }
      const id = newId('task');
      const task = box.state === 'paused' ? 'resume' : 'restore';
      const begun = await tasks.begin(box.id, box.state, task, id);
      if (!begun) return false;
      await timed(task, () => (task === 'resume' ? resume(begun, id) : restore(begun, id)));
      return true;
    },

    /** Of a task whose gateway is gone: what it had begun is undone, and where that is not known, the box is made usable. */
    async recover(box: BoxRow): Promise<void> {
      const { task, taskId } = box;
      if (task === null || taskId === null) return;
      await leases.run({ boxId: box.id, taskId, forMs: freezeMs, retryMs: () => retryMs }, async () => {
        if (task === 'freeze' || task === 'resume') {
          const { instance } = await lifecycle.instanceOf(box);
          await thaw(instance);
          if (task === 'resume') await tasks.markResumed(box.id, taskId);
        }
        if (task === 'restore') await tasks.dropInstances(box.id, taskId);
        await tasks.abandon(box.id, taskId);
      });
    },
  };
};

export type Hibernation = ReturnType<typeof createHibernation>;

const notPutBackError = (retryAfterSeconds: number, cause?: unknown) =>
  new CodeBoxError('unavailable', 'The files of the box could not be put back.', { cause, retryAfterSeconds });

const notPutBack = (cause: unknown): never => {
  if (hasCode(cause, 'conflict', 'task_called_off')) throw cause;
  throw notPutBackError(restoreRetryMs / 1000, cause);
};
