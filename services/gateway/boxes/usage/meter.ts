import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { UsageStore } from '../../store/usage/usage.ts';
import { sampleOne, sampleUsage } from './sample.ts';

export interface MeterOptions {
  driver: Pick<Driver, 'site' | 'usage'>;
  usage: Pick<UsageStore, 'begin' | 'inUse' | 'meter'>;
}

const batch = 32;
const sampleMs = 2000;
/** After this time a sweep begins no further page. */
const sweepMs = 1000;

/**
 * Meters the use of boxes as their hosts count it: at every sweep, and once more before an instance is destroyed. Any number of gateways
 * may do so at once.
 */
export const createMeter = ({ driver, usage }: MeterOptions) => {
  let doneUpTo = '';

  const note = async (instance: string, used: InstanceUsage | undefined): Promise<void> => {
    // Without a sample, the running time of the instance is still counted.
    const { cpuMs = 0, memoryBytes = 0, peakMemoryBytes = memoryBytes } = used ?? {};
    await usage.meter(instance, { cpuMs: Math.round(cpuMs), peakMemoryBytes });
  };

  const count = async (instance: string): Promise<void> => {
    await note(instance, await sampleOne(driver, instance, sampleMs));
  };

  return {
    /** Notes the CPU time that an instance had used when its box got it, so that it does not count for the box. */
    begin: (instance: string, cpuMs: number): Promise<void> => usage.begin(instance, cpuMs),

    /** Meters one instance. Call it before the instance is destroyed, which ends the host's count. */
    count,

    /** Meters as many instances as there is time for, and the rest at the next sweep. Throws the first failure after the others. */
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
