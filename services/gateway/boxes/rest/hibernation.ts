import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Task } from '../../store/box/tasks.ts';
import type { Store } from '../../store/store.ts';
import { cannotFreeze } from '../life/capabilities.ts';
import { cacheMs, type Directory } from '../life/directory.ts';
import type { Allocation } from '../supply/allocation.ts';
import type { Catalog } from '../supply/catalog.ts';
import type { Instances } from '../supply/instances.ts';
import { filesMs } from '../supply/launch.ts';
import { sampleOne } from '../usage/sample.ts';
import type { TenantVolumes } from '../volumes/volumes.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Connecting } from './connecting.ts';
import { canceledError, type Leases, RollbackFailed } from './leases.ts';

export interface HibernationOptions {
  driver: Driver;
  store: Pick<Store, 'tasks' | 'executions' | 'usage'>;
  connections: BoxConnections;
  directory: Pick<Directory, 'instanceOf' | 'invalidate'>;
  catalog: Pick<Catalog, 'of'>;
  allocation: Pick<Allocation, 'provision' | 'handOut'>;
  instances: Pick<Instances, 'destroy'>;
  leases: Leases;
  checkpoints: Checkpoints;
  connecting: Pick<Connecting, 'recover'>;
  volumes: Pick<TenantVolumes, 'checkThere'>;
  background: Background;
  /** Reports each completed task, and how long it took. */
  onDone?: (task: Task, ms: number) => void;
}

/** Conditions for putting a box to rest. */
export interface RestConditions {
  /** How long the task waits before its work begins, so that all gateways notice it. */
  settleMs: number;
  /** Cancels the task when the box was used since it began. */
  requireUnused: boolean;
}

const freezeMs = 60_000;
const sampleMs = 2000;
/** How long no task begins automatically after a failed one. */
const retryMs = 60_000;
/** How long files are not restored again after a failure, even on request. */
const restoreRetryMs = 5000;

/** Explicit request: the box need not be idle. */
export const onRequest: RestConditions = { settleMs: cacheMs + 250, requireUnused: false };

/**
 * Puts boxes to rest, frozen with their memory or as files in the blob store, and wakes them. Each step is a task that begins and ends
 * by a compare-and-set, so a gateway may die at any point: the box is then in its previous state, and a sweep removes what the task
 * left.
 */
export const createHibernation = (options: HibernationOptions) => {
  const { driver, store, connections, directory, catalog, allocation, instances } = options;
  const { leases, checkpoints, connecting, volumes, background } = options;
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

  /** Waits until no gateway caches the box as ready any more, so that later requests notice the task. */
  const settle = async (boxId: string, { settleMs }: RestConditions, signal: AbortSignal): Promise<void> => {
    directory.invalidate(boxId);
    await sleep(settleMs, undefined, { signal });
    await checkQuiet(boxId);
  };

  const thaw = async (instance: string): Promise<void> => {
    await driver.thaw?.(instance, AbortSignal.timeout(freezeMs)).catch((cause: unknown) => {
      throw new RollbackFailed(cause);
    });
  };

  const freeze = async (box: BoxRow, taskId: string, instance: string, signal: AbortSignal): Promise<BoxRow> => {
    try {
      if (!driver.freeze) throw cannotFreeze();
      await driver.freeze(instance, signal);
      const paused = await tasks.markPaused(box.id, taskId);
      if (!paused) throw canceledError();
      return paused;
    } catch (error) {
      // The driver may have frozen the box although it failed. The row decides: unless it says paused, the box is thawed.
      const isOurs = await tasks.renew(box.id, taskId).catch((cause: unknown) => {
        throw new RollbackFailed(cause);
      });
      if (isOurs) await thaw(instance);
      throw error;
    }
  };

  const pause = (box: BoxRow, taskId: string, conditions: RestConditions): Promise<BoxRow> => {
    const lease = { boxId: box.id, taskId, forMs: conditions.settleMs + freezeMs, retryMs: () => retryMs };
    return leases.run(lease, async (signal) => {
      const { instance } = await directory.instanceOf(box);
      await settle(box.id, conditions, signal);
      if (!(await tasks.beginFreeze(box.id, taskId, conditions.requireUnused))) throw canceledError();
      const paused = await freeze(box, taskId, instance, signal);
      // Streams of a frozen box would wait forever.
      connections.drop(instance);
      return paused;
    });
  };

  const halt = (box: BoxRow, taskId: string, onFrozen: () => Promise<void>): Promise<void> =>
    leases.run({ boxId: box.id, taskId, forMs: freezeMs, retryMs: () => 0 }, async (signal) => {
      const { instance } = await directory.instanceOf(box);
      directory.invalidate(box.id);
      await freeze(box, taskId, instance, signal);
      await background.attempt('report a frozen box', onFrozen);
      connections.drop(instance);
    });

  const resume = (box: BoxRow, taskId: string): Promise<void> =>
    leases.run({ boxId: box.id, taskId, forMs: freezeMs, retryMs: () => 0 }, async (signal) => {
      const { instance } = await directory.instanceOf(box);
      await driver.thaw?.(instance, signal);
      if (!(await tasks.markResumed(box.id, taskId))) throw canceledError();
    });

  /** Saves the files of a box. With `hibernate`, its instance is then destroyed. */
  const saveFiles = async (
    box: BoxRow,
    taskId: string,
    conditions: RestConditions,
    hibernate: boolean,
  ): Promise<BoxRow> => {
    const lease = { boxId: box.id, taskId, forMs: conditions.settleMs + filesMs(box), retryMs: () => retryMs };
    const { saved, instance } = await leases.run(lease, async (signal) => {
      const { instance, server } = await directory.instanceOf(box);
      await checkpoints.checkReachable(box, signal);
      if (hibernate) await settle(box.id, conditions, signal);
      const used = await sampleOne(driver, instance, sampleMs);
      const cpuMs = used?.cpuMs ?? (await store.usage.lastCpuMs(instance));
      const spentCpuMs = Math.max(0, Math.round(cpuMs) - (box.startupCpuMs ?? 0));
      const bytes = await checkpoints.save(box, taskId, server, signal);
      const unused = conditions.requireUnused;
      const saved = await tasks.markKept(box.id, taskId, { bytes, spentCpuMs, hibernate, unused });
      if (saved) return { saved, instance };
      // The record of the blob may be gone by now, so no sweep would find it soon.
      await checkpoints.discard(box.id, taskId);
      await checkQuiet(box.id);
      throw canceledError();
    });
    // The box hibernates already. If this fails, a sweep destroys the instance.
    if (hibernate) await background.attempt('end the instance of a box', () => instances.destroy(instance));
    return saved;
  };

  /** Gives a box a new, empty instance. */
  const provision = async (box: BoxRow) => {
    const template = catalog.of(box);
    if (!template) throw new CodeBoxError('conflict', `The template ${box.template} is not there any more.`);
    await volumes.checkThere(box);
    return await allocation.provision(box, template, { env: {}, files: [], writeFiles: async () => {} });
  };

  const restore = (box: BoxRow, taskId: string): Promise<void> => {
    /** A failure for lack of room may be retried at once, unlike a failure to transfer the files. */
    let isFilesFault = true;
    const lease = { boxId: box.id, taskId, forMs: filesMs(box), retryMs: () => (isFilesFault ? restoreRetryMs : 0) };
    return leases.run(lease, async (signal) => {
      // This comes before an instance is taken, which other boxes may be waiting for.
      await checkpoints.checkSaved(box, signal).catch(failRestore);
      isFilesFault = false;
      const { instance, server } = await provision(box);
      try {
        isFilesFault = true;
        await checkpoints.restore(box, server, signal);
        if (!(await tasks.markRestored(box.id, taskId, instance))) throw canceledError();
        allocation.handOut(box, instance.id);
      } catch (cause) {
        const destroy = () => instances.destroy(instance.id);
        if (await tasks.dropInstance(instance.id)) await background.attempt('end the instance of a box', destroy);
        return failRestore(cause);
      }
    });
  };

  return {
    pause: (box: BoxRow, taskId: string, conditions: RestConditions) =>
      timed('pause', () => pause(box, taskId, conditions)),
    hibernate: (box: BoxRow, taskId: string, conditions: RestConditions) =>
      timed('hibernate', () => saveFiles(box, taskId, conditions, true)),
    checkpoint: (box: BoxRow, taskId: string, conditions: RestConditions) =>
      timed('checkpoint', () => saveFiles(box, taskId, conditions, false)),

    /** Freezes a box whose `freeze` task has begun, although code runs in it. Calls `onFrozen` once the box can send nothing any more. */
    halt: (box: BoxRow, taskId: string, onFrozen: () => Promise<void>) =>
      timed('freeze', () => halt(box, taskId, onFrozen)),

    /**
     * Wakes a resting box. Resolves with false when another task is under way. Throws `unavailable` at once for a while after its files
     * could not be restored.
     */
    async wake(box: BoxRow): Promise<boolean> {
      if (box.state === 'hibernated' && box.retryAt !== null) {
        const seconds = Math.ceil(await tasks.pauseOf(box.id));
        if (seconds > 0) throw restoreError(seconds);
      }
      const id = newId('task');
      const task = box.state === 'paused' ? 'resume' : 'restore';
      const begun = await tasks.begin(box.id, box.state, task, id);
      if (!begun) return false;
      await timed(task, () => (task === 'resume' ? resume(begun, id) : restore(begun, id)));
      return true;
    },

    /** Undoes a task whose gateway is gone. Where its progress is unknown, the box is made usable. */
    async recover(box: BoxRow): Promise<void> {
      const { task, taskId } = box;
      if (task === null || taskId === null) return;
      await leases.run({ boxId: box.id, taskId, forMs: freezeMs, retryMs: () => retryMs }, async () => {
        if (task === 'freeze' || task === 'resume') {
          const { instance } = await directory.instanceOf(box);
          await thaw(instance);
          if (task === 'resume') await tasks.markResumed(box.id, taskId);
        }
        if (task === 'connect') await connecting.recover(box, taskId);
        if (task === 'restore') await tasks.dropInstances(box.id, taskId);
        await tasks.abandon(box.id, taskId);
      });
    },
  };
};

export type Hibernation = ReturnType<typeof createHibernation>;

const restoreError = (retryAfterSeconds: number, cause?: unknown) =>
  new CodeBoxError('unavailable', 'The files of the box could not be restored.', { cause, retryAfterSeconds });

const failRestore = (cause: unknown): never => {
  if (hasCode(cause, 'conflict', 'task_called_off')) throw cause;
  throw restoreError(restoreRetryMs / 1000, cause);
};
