import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, hasCode, type NetworkPolicy } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import { checkLiving, isUsable } from '../life/box-state.ts';
import { cannotFreeze } from '../life/capabilities.ts';
import type { Directory } from '../life/directory.ts';
import type { Endings } from '../life/endings.ts';
import { createSingleFlight } from '../life/single-flight.ts';
import { filesMs } from '../supply/launch.ts';
import type { TenantQuotas } from '../usage/quotas.ts';
import type { Connecting } from './connecting.ts';
import { type Hibernation, onRequest } from './hibernation.ts';
import { canceledError } from './leases.ts';

export interface RestOptions {
  store: Pick<Store, 'tasks' | 'networks'>;
  directory: Pick<Directory, 'find' | 'locateHere' | 'keepalive'>;
  endings: Pick<Endings, 'causeOfLoss'>;
  hibernation: Hibernation;
  connecting: Connecting;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
  canFreeze: boolean;
  /** Writes the ends of executions and the uses of boxes that are not written yet. */
  flush: () => Promise<void>;
}

/** How long a box may take to wake, beside the transfer of its files. */
const wakeMs = 60_000;
const pollMs = 100;

/** Puts boxes to rest on request, and wakes them for every use. */
export const createRest = (options: RestOptions) => {
  const { store, directory, endings, hibernation, connecting, quotas, canFreeze, flush } = options;
  const waking = createSingleFlight<void>();

  /** Throws the end of the box if that is why its task failed, and records a loss that nobody has recorded yet. */
  const explain = async (box: BoxRow, error: unknown): Promise<void> => {
    const isLoss = hasCode(error, 'not_found');
    if (isLoss) await endings.causeOfLoss(refOf(box));
    if (isLoss || hasCode(error, 'conflict')) checkLiving(await directory.find(refOf(box)));
  };

  /** Resolves with false when another gateway wakes the box, or when its memory is lost and its files have to be restored instead. */
  const wakeOnce = (box: BoxRow): Promise<boolean> =>
    hibernation.wake(box).catch(async (error: unknown) => {
      await explain(box, error);
      if (hasCode(error, 'not_found')) return false;
      throw error;
    });

  const bringBack = async (ref: BoxRef): Promise<void> => {
    const startedAt = performance.now();
    for (;;) {
      const { box } = await directory.locateHere(ref);
      checkLiving(box);
      if (box.state === 'ready' && isUsable(box)) return;
      // Code that is frozen in the box would continue.
      if (box.state === 'paused') await quotas.cpuLeftMs(ref.tenant);
      if (performance.now() - startedAt > filesMs(box) + wakeMs)
        throw new CodeBoxError('timeout', 'The box did not come back in time.');
      if (box.task === 'pause' || box.task === 'hibernate') await store.tasks.interrupt(ref.box);
      else if (box.task !== null || !(await wakeOnce(box))) await sleep(pollMs);
    }
  };

  const orEnded = <T>(box: BoxRow, work: Promise<T>): Promise<T> =>
    work.catch(async (error: unknown) => {
      await explain(box, error);
      throw hasCode(error, 'not_found') ? canceledError(error) : error;
    });

  /** Wakes a box and resolves once it is ready. The key has the tenant too, so that nobody joins the wake of another tenant's box. */
  const wake = (ref: BoxRef): Promise<void> => waking(`${ref.tenant}/${ref.box}`, () => bringBack(ref));

  /** Begins a task on a box that is ready. Throws `conflict` while another task is under way. */
  const begin = async (
    box: BoxRow,
    task: 'pause' | 'hibernate' | 'checkpoint' | 'connect',
  ): Promise<{ row: BoxRow; id: string }> => {
    await flush();
    const id = newId('task');
    const row = await store.tasks.begin(box.id, 'ready', task, id);
    if (row) return { row, id };
    checkLiving(await directory.find(refOf(box)));
    throw new CodeBoxError('conflict', 'The state of the box is changing.', {
      reason: 'box_changing',
      retryAfterSeconds: 1,
    });
  };

  return {
    wake,

    /** Freezes a box with its memory. Throws `invalid_request` where the driver cannot, `conflict` while code runs in it or it hibernates. */
    async pause(ref: BoxRef): Promise<BoxRow> {
      const { box } = await directory.locateHere(ref);
      if (box.state === 'paused') return box;
      if (!canFreeze) throw cannotFreeze();
      if (box.state === 'hibernated')
        throw new CodeBoxError('conflict', 'The box hibernates: it has no memory to freeze.', {
          reason: 'box_hibernated',
        });
      const { row, id: taskId } = await begin(box, 'pause');
      return await orEnded(row, hibernation.pause(row, taskId, onRequest));
    },

    /**
     * Freezes a box that does not stop its runs, whatever task is under way. Calls `onFrozen` once the box can send nothing any more.
     * Does nothing when the box has another instance by now.
     */
    async halt(boxId: string, instance: string, onFrozen: () => Promise<void>): Promise<void> {
      const id = newId('task');
      const row = await store.tasks.seize(boxId, instance, id);
      if (row) await orEnded(row, hibernation.halt(row, id, onFrozen));
    },

    /** Wakes a box. Throws `quota_exceeded` for a frozen box whose tenant has no CPU time left today. */
    async resume(ref: BoxRef): Promise<BoxRow> {
      await wake(ref);
      return await directory.keepalive(ref);
    },

    /** Saves the files of a box and destroys its instance. Throws `conflict` when code runs in it or it is used meanwhile. */
    async hibernate(ref: BoxRef): Promise<BoxRow> {
      const { box } = await directory.locateHere(ref);
      if (box.state === 'hibernated') return box;
      if (box.state === 'paused') await wake(ref);
      const { row, id: taskId } = await begin(box, 'hibernate');
      return await orEnded(row, hibernation.hibernate(row, taskId, onRequest));
    },

    /**
     * Saves the files of a box as they are now; running code may change them meanwhile. Throws `quota_exceeded` when its tenant has no
     * CPU time left today.
     */
    async checkpoint(ref: BoxRef): Promise<BoxRow> {
      const { box } = await directory.locateHere(ref);
      if (box.state === 'hibernated') return box;
      checkLiving(box);
      await quotas.cpuLeftMs(ref.tenant);
      if (box.state === 'paused') await wake(ref);
      const { row, id: taskId } = await begin(box, 'checkpoint');
      return await orEnded(row, hibernation.checkpoint(row, taskId, onRequest));
    },

    /**
     * Changes the network of a box; one that hibernates has it from its next use on. Throws `invalid_request` where the driver cannot do
     * that to a running box, and `conflict` for a box that was started without support for it.
     */
    async connect(ref: BoxRef, network: NetworkPolicy): Promise<void> {
      const { box } = await directory.locateHere(ref);
      checkLiving(box);
      if (box.network === network && box.task !== 'connect') return;
      if (box.state === 'hibernated' && (await store.networks.set(ref.box, network))) return;
      connecting.check(network);
      if (box.state === 'paused') await wake(ref);
      const { row, id } = await begin(box, 'connect');
      await orEnded(row, connecting.connect(row, id, network));
    },
  };
};

export type Rest = ReturnType<typeof createRest>;
