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
/** CPU time that an idle box uses between two sweeps. */
const idleMs = 50;
/** CPU time that a box may use after its runs have been stopped, before it is ended. */
const maxResistedMs = 5000;
const spent = 'The box had used all the CPU time that it may use.';
const resisted = 'The box went on after it had used all its CPU time.';

/** CPU time of a box past its limit: at the last sweep, and since its runs were stopped for the first time. */
interface Overspent {
  usedMs: number;
  resistedMs: number;
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
    const grownMs = usedMs - (last?.usedMs ?? 0);
    const isIdle = last !== undefined && grownMs <= idleMs;
    const resistedMs = (last?.resistedMs ?? 0) + (last === undefined || isIdle ? 0 : grownMs);
    now.set(instance, { usedMs, resistedMs });
    if (isIdle) return;
    if (resistedMs > maxResistedMs) {
      onReap('cpu_limit');
      await endings.end(box.id, 'deleting', { code: 'cpu_limit', detail: resisted });
      return;
    }
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
