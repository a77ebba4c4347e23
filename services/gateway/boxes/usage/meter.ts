import type { Driver } from '../../drivers/driver.ts';
import type { UsageStore } from '../../store/usage/usage.ts';
import { sampleUsage } from './sample.ts';

export interface MeterOptions {
  driver: Pick<Driver, 'site' | 'usage'>;
  usage: Pick<UsageStore, 'begin' | 'unmetered' | 'meter'>;
}

const batch = 100;
const sampleMs = 2000;
/** After this time a sweep begins no further page. */
const sweepMs = 1000;

/**
 * Meters the use of boxes as their hosts count it: at every sweep, and once more before an instance is destroyed. Any number of gateways
 * may do so at once.
 */
export const createMeter = ({ driver, usage }: MeterOptions) => {
  let doneUpTo = '';

  const count = async (page: readonly string[]): Promise<void> => {
    const used = await sampleUsage(driver, page, sampleMs);
    const metered = page.map((instance) => {
      // Without a sample, the running time of the instance is still counted.
      const { cpuMs = 0, memoryBytes = 0, peakMemoryBytes = memoryBytes } = used.get(instance) ?? {};
      return { instance, cpuMs: Math.round(cpuMs), peakMemoryBytes: Math.round(peakMemoryBytes) };
    });
    await usage.meter(metered);
  };

  return {
    /** Notes the CPU time that an instance had used when its box got it, so that it does not count for the box. */
    begin: (instance: string, cpuMs: number): Promise<void> => usage.begin(instance, cpuMs),

    /** Meters one instance. Call it before the instance is destroyed, which ends the host's count. */
    count: (instance: string): Promise<void> => count([instance]),

    /** Meters as many instances as there is time for, and the rest at the next sweep. */
    async sweep(): Promise<void> {
      const until = performance.now() + sweepMs;
      do {
        const page = await usage.unmetered(driver.site, doneUpTo, batch);
        doneUpTo = page.length < batch ? '' : (page.at(-1) ?? '');
        if (page.length > 0) await count(page);
      } while (doneUpTo !== '' && performance.now() < until);
    },
  };
};

export type Meter = ReturnType<typeof createMeter>;
