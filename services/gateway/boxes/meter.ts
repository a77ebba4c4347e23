import type { Driver } from '../drivers/driver.ts';
import type { Metered, UsageStore } from '../store/usage.ts';

export interface MeterOptions {
  driver: Pick<Driver, 'name' | 'stats'>;
  usage: Pick<UsageStore, 'begin' | 'inUse' | 'meter'>;
}

const batch = 32;
const statsDeadlineMs = 2000;

/** Of an instance that cannot be asked its time is counted all the same. */
const nothing: Metered = { cpuMs: 0, peakMemoryBytes: 0 };

/**
 * Counts what boxes use, as their hosts see it: now and then while they are there, and once more before their instances go. Any number
 * of gateways may do so at once.
 */
export const createMeter = ({ driver, usage }: MeterOptions) => {
  let doneUpTo = '';

  const count = async (instance: string): Promise<void> => {
    const used = await driver.stats(instance, AbortSignal.timeout(statsDeadlineMs)).catch(() => nothing);
    await usage.meter(instance, { ...used, cpuMs: Math.round(used.cpuMs) });
  };

  return {
    /**
     * What an instance has used until now is not its box's: to be called when it is about to be handed out. One that cannot be asked
     * is counted from its start.
     */
    async begin(instance: string): Promise<void> {
      const used = await driver.stats(instance, AbortSignal.timeout(statsDeadlineMs)).catch(() => undefined);
      if (used) await usage.begin(instance, Math.round(used.cpuMs));
    },

    /** One instance: to be called before it is destroyed, because afterwards nobody knows. */
    count,

    /** The next page of them; throws when one of them could not be counted, after all others were. */
    async sweep(): Promise<void> {
      const page = await usage.inUse(driver.name, doneUpTo, batch);
      doneUpTo = page.length < batch ? '' : (page.at(-1) ?? '');
      const counted = await Promise.allSettled(page.map(count));
      const failed = counted.find((result) => result.status === 'rejected');
      if (failed) throw failed.reason;
    },
  };
};

export type Meter = ReturnType<typeof createMeter>;
