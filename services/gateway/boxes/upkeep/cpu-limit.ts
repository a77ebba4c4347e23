import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxWithInstance } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Endings } from '../life/endings.ts';

export interface CpuLimitOptions {
  driver: Pick<Driver, 'site'>;
  boxes: Pick<Store['boxes'], 'listWithInstances'>;
  budget: Pick<CpuBudget, 'overspentMs'>;
  connections: Pick<BoxConnections, 'to'>;
  endings: Pick<Endings, 'end'>;
  background: Background;
  onReap: (cause: string) => void;
}

const page = 16;
/** How long a sweep waits for a page: a box whose server hangs takes until its deadline. */
const patienceMs = 3000;
const stopDeadlineMs = 2000;
/** A box is idle that uses less than this, or this share of a CPU. */
const idleMs = 50;
const idleShare = 0.02;
/** A box is busy that uses this share of a CPU, or half of its limit. On a busy host it may not get more. */
const busyShare = 0.1;
/** A box that was busy in this many more looks than it was not, over this time, does not stop its runs, and is ended. */
const maxBusyLooks = 6;
const busyMs = 30_000;
const spent = 'The box had used all the CPU time that it may use.';
const resisted = 'The box went on after it had used all its CPU time.';

/** The last look at a box past its limit. */
interface Overspent {
  usedMs: number;
  at: number;
  busyLooks: number;
  /** When `busyLooks` was last 0. */
  calmAt: number;
}

/**
 * Enforces the CPU limit of boxes. Their box servers end each run at the limit, but runs side by side, and processes that they left behind,
 * exceed it together: then everything that runs is stopped, and the box keeps its files. A box that goes on nevertheless is ended.
 */
export const createCpuLimit = (options: CpuLimitOptions) => {
  const { driver, boxes, budget, connections, endings, background, onReap } = options;
  /** By instance, of this round over all boxes and of the last one. */
  let [now, before] = [new Map<string, Overspent>(), new Map<string, Overspent>()];
  let after = '';

  const enforce = async (found: BoxWithInstance): Promise<void> => {
    const { box, instance, address } = found;
    const usedMs = await budget.overspentMs(found);
    if (usedMs === undefined || address === null) return;
    const last = now.get(instance) ?? before.get(instance);
    const at = performance.now();
    const [grownMs, elapsedMs] = last ? [usedMs - last.usedMs, at - last.at] : [usedMs, 0];
    const isBusy = last !== undefined && grownMs >= Math.min(busyShare, box.limits.cpus / 2) * elapsedMs;
    const busyLooks = Math.max(0, (last?.busyLooks ?? 0) + (isBusy ? 1 : -1));
    const calmAt = last && busyLooks > 0 ? last.calmAt : at;
    now.set(instance, { usedMs, at, busyLooks, calmAt });
    if (busyLooks >= maxBusyLooks && at - calmAt >= busyMs) {
      onReap('cpu_limit');
      await endings.end(box.id, 'deleting', { code: 'cpu_limit', detail: resisted });
      return;
    }
    if (last && grownMs <= Math.max(idleMs, idleShare * elapsedMs)) return;
    await connections.to(instance, address).stop({ detail: spent }, AbortSignal.timeout(stopDeadlineMs));
  };

  return {
    /** Checks the next page of the boxes with a limit. */
    async sweep(): Promise<void> {
      const found = await boxes.listWithInstances(driver.site, { after, limit: page, budgeted: true });
      await background.each(found, { what: 'stop a box past its CPU time', patienceMs }, enforce);
      after = found.length < page ? '' : (found.at(-1)?.instance ?? '');
      if (after === '') [before, now] = [now, new Map()];
    },
  };
};

export type CpuLimit = ReturnType<typeof createCpuLimit>;
