import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';
import type { BoxRow } from '../store/boxes.ts';
import type { Store } from '../store/store.ts';
import { checkLiving } from './access.ts';
import { asked, type Hibernation } from './hibernation.ts';
import { newId } from './id.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { TenantQuotas } from './quotas.ts';

export interface RestOptions {
  store: Pick<Store, 'tasks'>;
  lifecycle: Lifecycle;
  hibernation: Hibernation;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
  /** Writes what is known and not yet written: ends of executions and uses of boxes. */
  flush: () => Promise<void>;
}

const wakeMs = 660_000;
const lookEveryMs = 100;

/** What callers ask of boxes about their rest, and the way back that every use of a resting box takes. */
export const createRest = ({ store, lifecycle, hibernation, quotas, flush }: RestOptions) => {
  const waking = new Map<string, Promise<void>>();

  const bringBack = async (tenant: string, id: string): Promise<void> => {
    const deadline = performance.now() + wakeMs;
    for (;;) {
      const box = await lifecycle.find(tenant, id);
      checkLiving(box);
      if (box.state === 'ready' && (box.task === null || box.task === 'checkpoint')) return;
      // What is frozen there would go on.
      if (box.state === 'paused') await quotas.cpuLeftMs(tenant);
      if (performance.now() > deadline) throw new CodeBoxError('timeout', 'The box did not come back in time.');
      if (box.task === 'pause' || box.task === 'hibernate') await store.tasks.interrupt(id);
      else if (box.task !== null || !(await hibernation.wake(box))) await sleep(lookEveryMs);
    }
  };

  /** Returns when the box is ready; many at once do it once. */
  const wake = (tenant: string, id: string): Promise<void> => {
    // By tenant too: another one's box answers as one that is not there.
    const key = `${tenant}/${id}`;
    const known = waking.get(key);
    if (known) return known;
    const coming = bringBack(tenant, id).finally(() => waking.delete(key));
    waking.set(key, coming);
    return coming;
  };

  /** Begins what was asked for on a box that is ready; `conflict` when something else is done about it. */
  const begin = async (
    box: BoxRow,
    task: 'pause' | 'hibernate' | 'checkpoint',
  ): Promise<{ row: BoxRow; id: string }> => {
    await flush();
    const id = newId('task');
    const row = await store.tasks.begin(box.id, 'ready', task, id);
    if (row) return { row, id };
    checkLiving(await lifecycle.find(box.tenantId, box.id));
    throw new CodeBoxError('conflict', 'The box is just being paused, kept or brought back.', { retryAfterSeconds: 1 });
  };

  return {
    wake,

    /** Freezes a box with its memory. `conflict` when code runs in it, or when it hibernates. */
    async pause(tenant: string, id: string): Promise<BoxRow> {
      const box = await lifecycle.find(tenant, id);
      if (box.state === 'paused') return box;
      if (box.state === 'hibernated')
        throw new CodeBoxError('conflict', 'The box hibernates: it has no memory to freeze.');
      const { row, id: taskId } = await begin(box, 'pause');
      return await hibernation.pause(row, taskId, asked);
    },

    /** Has a box ready, whatever it rests as. `quota_exceeded` for a frozen one whose tenant has no CPU time left today. */
    async resume(tenant: string, id: string): Promise<BoxRow> {
      await wake(tenant, id);
      return await lifecycle.keepalive(tenant, id);
    },

    /** Puts the files of a box aside and ends what runs it. `conflict` when code runs in it or it is used meanwhile. */
    async hibernate(tenant: string, id: string): Promise<BoxRow> {
      const box = await lifecycle.find(tenant, id);
      if (box.state === 'hibernated') return box;
      if (box.state === 'paused') await wake(tenant, id);
      const { row, id: taskId } = await begin(box, 'hibernate');
      return await hibernation.hibernate(row, taskId, asked);
    },

    /** Puts the files of a box aside as they are now; what runs may change them meanwhile. */
    async checkpoint(tenant: string, id: string): Promise<BoxRow> {
      const box = await lifecycle.find(tenant, id);
      if (box.state === 'hibernated') return box;
      if (box.state === 'paused') await wake(tenant, id);
      const { row, id: taskId } = await begin(box, 'checkpoint');
      return await hibernation.checkpoint(row, taskId, asked);
    },
  };
};

export type Rest = ReturnType<typeof createRest>;
