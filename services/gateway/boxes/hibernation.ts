import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';
import type { BoxConnections } from '../box-server/connections.ts';
import type { Driver } from '../drivers/driver.ts';
import type { BoxRow } from '../store/boxes.ts';
import type { Store } from '../store/store.ts';
import type { Task } from '../store/tasks.ts';
import { trustMs } from './access.ts';
import type { Checkpoints } from './checkpoints.ts';
import { newId } from './id.ts';
import { calledOff, type Leases } from './leases.ts';
import type { Lifecycle } from './lifecycle.ts';

export interface HibernationOptions {
  driver: Driver;
  store: Pick<Store, 'tasks' | 'executions'>;
  connections: BoxConnections;
  lifecycle: Lifecycle;
  leases: Leases;
  checkpoints: Checkpoints;
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
const filesMs = 600_000;

/** Somebody asks for it: they know that they do not use the box otherwise. */
export const asked: Manner = { settleMs: trustMs + 250, unused: false };

/**
 * Boxes at rest: frozen with their memory, or as files in the blob store, and the ways back. Each step is a task, which begins
 * and ends by a compare-and-set, so a gateway may die at any point: the box is then in the state from before, and what was half
 * made is swept.
 */
export const createHibernation = (options: HibernationOptions) => {
  const { driver, store, connections, lifecycle, leases, checkpoints } = options;
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
    if (running !== undefined) throw new CodeBoxError('conflict', `The execution ${running} is running in the box.`);
  };

  /** Requests that took the box for ready are let in, and later ones learn of the task before it begins. */
  const settle = async (boxId: string, { settleMs }: Manner, signal: AbortSignal): Promise<void> => {
    lifecycle.distrust(boxId);
    await sleep(settleMs, undefined, { signal });
    await checkQuiet(boxId);
  };

  const pause = (box: BoxRow, taskId: string, manner: Manner): Promise<BoxRow> =>
    leases.run(box.id, taskId, manner.settleMs + freezeMs, async (signal) => {
      const { instance, address } = await lifecycle.instanceOf(box);
      await settle(box.id, manner, signal);
      if (!(await tasks.beginFreeze(box.id, taskId, manner.unused))) throw calledOff();
      await driver.freeze(instance, signal);
      try {
        const paused = await tasks.markPaused(box.id, taskId);
        if (!paused) throw calledOff();
        // Streams of a frozen box would wait in vain.
        connections.drop(address);
        return paused;
      } catch (error) {
        await driver.thaw(instance, AbortSignal.timeout(freezeMs));
        throw error;
      }
    });

  const resume = (box: BoxRow, taskId: string): Promise<void> =>
    leases.run(box.id, taskId, freezeMs, async (signal) => {
      const { instance } = await lifecycle.instanceOf(box);
      await driver.thaw(instance, signal);
      if (!(await tasks.markResumed(box.id, taskId))) throw calledOff();
    });

  /** Puts the files aside; with `hibernate` they are all that is left of the box. */
  const keep = async (box: BoxRow, taskId: string, manner: Manner, hibernate: boolean): Promise<BoxRow> => {
    const { kept, instance, address } = await leases.run(box.id, taskId, manner.settleMs + filesMs, async (signal) => {
      const { instance, address, server } = await lifecycle.instanceOf(box);
      if (hibernate) await settle(box.id, manner, signal);
      const { cpuMs } = await driver.stats(instance, signal);
      const spentCpuMs = Math.max(0, Math.round(cpuMs) - (box.startupCpuMs ?? 0));
      const bytes = await checkpoints.put(box, taskId, server, signal);
      const { unused } = manner;
      const kept = await tasks.markKept(box.id, taskId, { bytes, spentCpuMs, hibernate, unused });
      if (kept) return { kept, instance, address };
      // Its record may be gone by now, so nobody else would find it soon.
      await checkpoints.discard(box.id, taskId);
      await checkQuiet(box.id);
      throw calledOff();
    });
    if (hibernate) await lifecycle.destroyInstance(instance, address);
    return kept;
  };

  const restore = (box: BoxRow, taskId: string): Promise<void> =>
    leases.run(box.id, taskId, filesMs, async (signal) => {
      const { instance, server } = await lifecycle.embody(box);
      try {
        await checkpoints.restore(box, server, signal);
        const { cpuMs } = await driver.stats(instance.id, signal);
        if (!(await tasks.markRestored(box.id, taskId, instance, Math.round(cpuMs)))) throw calledOff();
      } catch (cause) {
        await tasks.dropInstances(box.id);
        await lifecycle.destroyInstance(instance.id, instance.address);
        if (cause instanceof CodeBoxError && cause.code === 'conflict') throw cause;
        throw new CodeBoxError('unavailable', 'The files of the box could not be put back.', {
          cause,
          retryAfterSeconds: 5,
        });
      }
    });

  return {
    pause: (box: BoxRow, taskId: string, manner: Manner) => timed('pause', () => pause(box, taskId, manner)),
    hibernate: (box: BoxRow, taskId: string, manner: Manner) =>
      timed('hibernate', () => keep(box, taskId, manner, true)),
    checkpoint: (box: BoxRow, taskId: string, manner: Manner) =>
      timed('checkpoint', () => keep(box, taskId, manner, false)),

    /** Begins to bring a resting box back and waits for it; false when somebody else does. */
    async wake(box: BoxRow): Promise<boolean> {
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
      await leases.run(box.id, taskId, freezeMs, async (signal) => {
        if (task === 'freeze' || task === 'resume') {
          const { instance } = await lifecycle.instanceOf(box);
          await driver.thaw(instance, signal);
          if (task === 'resume') await tasks.markResumed(box.id, taskId);
        }
        if (task === 'restore') await tasks.dropInstances(box.id);
        await tasks.abandon(box.id, taskId);
      });
    },
  };
};

export type Hibernation = ReturnType<typeof createHibernation>;
