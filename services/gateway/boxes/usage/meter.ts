import type { Driver } from '../../drivers/driver.ts';
import type { Metered, UsageStore } from '../../store/usage/usage.ts';

export interface MeterOptions {
  driver: Pick<Driver, 'site' | 'stats'>;
  usage: Pick<UsageStore, 'begin' | 'inUse' | 'meter'>;
}

const batch = 32;
const statsDeadlineMs = 2000;
/** What a sweep may take, beside what it has begun. */
const sweepMs = 1000;

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

    /** All of them, or as many as there is time for, the rest the next time; throws when one could not be counted, after the others. */
    async sweep(): Promise<void> {
      const until = performance.now() + sweepMs;
      let failed: PromiseRejectedResult | undefined;
      do {
        const page = await usage.inUse(driver.site, doneUpTo, batch);
        doneUpTo = page.length < batch ? '' : (page.at(-1) ?? '');
        const counted = await Promise.allSettled(page.map(count));
        failed ??= counted.find((result) => result.status === 'rejected');
      } while (doneUpTo !== '' && performance.now() < until);
      if (failed) throw failed.reason;
    },
  };
};

export type Meter = ReturnType<typeof createMeter>;
