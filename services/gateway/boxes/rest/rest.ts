import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import { checkLiving } from '../life/access.ts';
import { cannotFreeze } from '../life/capabilities.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import { createSharedWork } from '../life/shared-work.ts';
import type { TenantQuotas } from '../usage/quotas.ts';
import { asked, filesMs, type Hibernation } from './hibernation.ts';
import { calledOff } from './leases.ts';

export interface RestOptions {
  store: Pick<Store, 'tasks'>;
  lifecycle: Lifecycle;
  hibernation: Hibernation;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
  canFreeze: boolean;
  /** Writes what is known and not yet written: ends of executions and uses of boxes. */
  flush: () => Promise<void>;
}

/** What a box may take to come back besides the time of its files. */
const wakeMs = 60_000;
const lookEveryMs = 100;

/** What callers ask of boxes about their rest, and the way back that every use of a resting box takes. */
export const createRest = ({ store, lifecycle, hibernation, quotas, canFreeze, flush }: RestOptions) => {
  const waking = createSharedWork<void>();

  /** A task may fail because its box was lost, which is on record then, or has ended: that is thrown. */
  const explain = async (box: BoxRow, error: unknown): Promise<void> => {
    const isLoss = hasCode(error, 'not_found');
    if (isLoss) await lifecycle.whyGone(refOf(box));
    if (isLoss || hasCode(error, 'conflict')) checkLiving(await lifecycle.find(refOf(box)));
  };

  /** False when somebody else brings it back, or when its memory is lost and its files have to be brought back instead. */
  const wakeOnce = (box: BoxRow): Promise<boolean> =>
    hibernation.wake(box).catch(async (error: unknown) => {
      await explain(box, error);
      if (hasCode(error, 'not_found')) return false;
      throw error;
    });

  const bringBack = async (ref: BoxRef): Promise<void> => {
    const startedAt = performance.now();
    for (;;) {
      const { box } = await lifecycle.findHere(ref);
      checkLiving(box);
      if (box.state === 'ready' && (box.task === null || box.task === 'checkpoint')) return;
      // What is frozen there would go on.
      if (box.state === 'paused') await quotas.cpuLeftMs(ref.tenant);
      if (performance.now() - startedAt > filesMs(box) + wakeMs)
        throw new CodeBoxError('timeout', 'The box did not come back in time.');
      if (box.task === 'pause' || box.task === 'hibernate') await store.tasks.interrupt(ref.box);
      else if (box.task !== null || !(await wakeOnce(box))) await sleep(lookEveryMs);
    }
  };

  const orEnded = <T>(box: BoxRow, work: Promise<T>): Promise<T> =>
    work.catch(async (error: unknown) => {
      await explain(box, error);
      throw hasCode(error, 'not_found') ? calledOff(error) : error;
    });

  /** Returns when the box is ready. By tenant too: another one's box answers as one that is not there. */
  const wake = (ref: BoxRef): Promise<void> => waking(`${ref.tenant}/${ref.box}`, () => bringBack(ref));

  /** Begins what was asked for on a box that is ready; `conflict` when something else is done about it. */
  const begin = async (
    box: BoxRow,
    task: 'pause' | 'hibernate' | 'checkpoint',
  ): Promise<{ row: BoxRow; id: string }> => {
    await flush();
    const id = newId('task');
    const row = await store.tasks.begin(box.id, 'ready', task, id);
    if (row) return { row, id };
    checkLiving(await lifecycle.find(refOf(box)));
    throw new CodeBoxError('conflict', 'The box is just being paused, kept or brought back.', {
      reason: 'box_changing',
      retryAfterSeconds: 1,
    });
  };

  return {
    wake,

    /** Freezes a box with its memory. `invalid_request` where the driver cannot; `conflict` when code runs in it, or when it hibernates. */
    async pause(ref: BoxRef): Promise<BoxRow> {
      const { box } = await lifecycle.findHere(ref);
      if (box.state === 'paused') return box;
      if (!canFreeze) throw cannotFreeze();
      if (box.state === 'hibernated')
        throw new CodeBoxError('conflict', 'The box hibernates: it has no memory to freeze.', {
          reason: 'box_hibernated',
        });
      const { row, id: taskId } = await begin(box, 'pause');
      return await orEnded(row, hibernation.pause(row, taskId, asked));
    },

    /**
     * Freezes a box that does not end what runs in it, whatever is done about it. `onFrozen`: once it is, so that nothing can come from
     * there any more. Nothing happens when that instance does not embody it any more.
     */
    async halt(boxId: string, instance: string, onFrozen: () => Promise<void>): Promise<void> {
      const id = newId('task');
      const row = await store.tasks.seize(boxId, instance, id);
      if (row) await orEnded(row, hibernation.halt(row, id, onFrozen));
    },

    /** Has a box ready, whatever it rests as. `quota_exceeded` for a frozen one whose tenant has no CPU time left today. */
    async resume(ref: BoxRef): Promise<BoxRow> {
      await wake(ref);
      return await lifecycle.keepalive(ref);
    },

    /** Puts the files of a box aside and ends what runs it. `conflict` when code runs in it or it is used meanwhile. */
    async hibernate(ref: BoxRef): Promise<BoxRow> {
      const { box } = await lifecycle.findHere(ref);
      if (box.state === 'hibernated') return box;
      if (box.state === 'paused') await wake(ref);
      const { row, id: taskId } = await begin(box, 'hibernate');
      return await orEnded(row, hibernation.hibernate(row, taskId, asked));
    },

    /**
     * Puts the files of a box aside as they are now; what runs may change them meanwhile. `quota_exceeded` when its tenant has no CPU
     * time left today.
     */
    async checkpoint(ref: BoxRef): Promise<BoxRow> {
      const { box } = await lifecycle.findHere(ref);
      if (box.state === 'hibernated') return box;
      checkLiving(box);
      await quotas.cpuLeftMs(ref.tenant);
      if (box.state === 'paused') await wake(ref);
      const { row, id: taskId } = await begin(box, 'checkpoint');
      return await orEnded(row, hibernation.checkpoint(row, taskId, asked));
    },
  };
};

export type Rest = ReturnType<typeof createRest>;
