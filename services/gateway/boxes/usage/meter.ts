import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { UsageStore } from '../../store/usage/usage.ts';
import { sampleOne, sampleUsage } from './sample.ts';

export interface MeterOptions {
  driver: Pick<Driver, 'site' | 'usage'>;
  usage: Pick<UsageStore, 'begin' | 'inUse' | 'meter'>;
}

const batch = 32;
const sampleMs = 2000;
/** What a sweep may take, beside what it has begun. */
const sweepMs = 1000;

/**
 * Counts what boxes use, as their hosts see it: now and then while they are there, and once more before their instances go. Any number
 * of gateways may do so at once.
 */
export const createMeter = ({ driver, usage }: MeterOptions) => {
  let doneUpTo = '';

  const note = async (instance: string, used: InstanceUsage | undefined): Promise<void> => {
    // Of an instance that cannot be measured the time is counted all the same.
    const { cpuMs = 0, memoryBytes = 0, peakMemoryBytes = memoryBytes } = used ?? {};
    await usage.meter(instance, { cpuMs: Math.round(cpuMs), peakMemoryBytes });
  };

  const count = async (instance: string): Promise<void> => {
    await note(instance, await sampleOne(driver, instance, sampleMs));
  };

  return {
    /** An instance was handed out: the CPU time that it had used by then is not its box's. Without this it is counted from its start. */
    begin: (instance: string, cpuMs: number): Promise<void> => usage.begin(instance, cpuMs),

    /** One instance: to be called before it is destroyed, because afterwards nobody knows. */
    count,

    /** All of them, or as many as there is time for, the rest the next time; throws when one could not be counted, after the others. */
    async sweep(): Promise<void> {
      const until = performance.now() + sweepMs;
      let failed: PromiseRejectedResult | undefined;
      do {
        const page = await usage.inUse(driver.site, doneUpTo, batch);
        doneUpTo = page.length < batch ? '' : (page.at(-1) ?? '');
        const used = await sampleUsage(driver, page, sampleMs);
        const counted = await Promise.allSettled(page.map((instance) => note(instance, used.get(instance))));
        failed ??= counted.find((result) => result.status === 'rejected');
      } while (doneUpTo !== '' && performance.now() < until);
      if (failed) throw failed.reason;
    },
  };
};

export type Meter = ReturnType<typeof createMeter>;
