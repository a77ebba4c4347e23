import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { BoxStore } from '../../store/box/boxes.ts';
import { sampleUsage } from './sample.ts';

export interface UsageOptions {
  driver: Pick<Driver, 'site' | 'usage'>;
  boxes: Pick<BoxStore, 'listWithInstances'>;
}

/** The sum over the boxes of one template. */
export interface TemplateUsage {
  /** How many boxes were sampled in time; the sums cover only these. */
  sampled: number;
  cpuMs: number;
  memoryBytes: number;
  pids: number;
  oomKills: number;
}

const deadlineMs = 3000;
const freshMs = 5000;
const pageSize = 200;

/**
 * Sums the use of all boxes by template, not by box, because metrics need a bounded number of series. A sample takes at most 3 s,
 * whatever the driver does, and is cached for 5 s.
 */
export const createUsage = ({ driver, boxes }: UsageOptions) => {
  let last: { at: number; sample: Promise<Map<string, TemplateUsage>> } | undefined;

  const take = async (): Promise<Map<string, TemplateUsage>> => {
    const signal = AbortSignal.timeout(deadlineMs);
    const usage = new Map<string, TemplateUsage>();
    for (let after = ''; !signal.aborted; ) {
      const page = await boxes.listWithInstances(driver.site, { after, limit: pageSize, budgeted: false });
      const ids = page.map(({ instance }) => instance);
      const samples = await sampleUsage(driver, ids, deadlineMs);
      for (const { box, instance } of page) {
        // A box that ends meanwhile, or has no sample, is left out.
        const used = samples.get(instance);
        if (used) usage.set(box.template, add(usage.get(box.template), used));
      }
      const end = page.at(-1);
      if (page.length < pageSize || !end) break;
      after = end.instance;
    }
    return usage;
  };

  return async (): Promise<Map<string, TemplateUsage>> => {
    if (last === undefined || performance.now() - last.at > freshMs) last = { at: performance.now(), sample: take() };
    return await last.sample;
  };
};

const add = (sum: TemplateUsage | undefined, used: InstanceUsage): TemplateUsage => ({
  sampled: (sum?.sampled ?? 0) + 1,
  cpuMs: (sum?.cpuMs ?? 0) + used.cpuMs,
  memoryBytes: (sum?.memoryBytes ?? 0) + used.memoryBytes,
  pids: (sum?.pids ?? 0) + used.pids,
  oomKills: (sum?.oomKills ?? 0) + (used.oomKills ?? 0),
});
