import { CodeBoxError, hasCode } from '#contract';
import type { Driver, InstanceStats } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import { refOf } from '../box-ref.ts';
import type { Lifecycle } from './lifecycle.ts';

/** A box and what embodies it. */
export interface EmbodiedBox {
  box: Pick<BoxRow, 'id' | 'tenantId' | 'limits' | 'startupCpuMs'>;
  instance: string;
}

export interface BoxUsageOptions {
  driver: Pick<Driver, 'stats'>;
  lifecycle: Pick<Lifecycle, 'whyGone'>;
}

/**
 * What one box uses, counted by the host: what a box says of its use is not asked for. What it had used when it began to
 * serve is not its user's and not in `cpuMs`. Throws `gone` when nothing embodies it any more, `unavailable` when the host
 * cannot tell.
 */
export const createBoxUsage =
  ({ driver, lifecycle }: BoxUsageOptions) =>
  async ({ box, instance }: EmbodiedBox, signal: AbortSignal): Promise<InstanceStats> => {
    const used = await driver.stats(instance, signal).catch(async (error: unknown) => {
      if (!hasCode(error, 'not_found')) throw error;
      const cause = await lifecycle.whyGone(refOf(box));
      if (cause) throw new CodeBoxError('gone', cause.detail ?? 'The box is gone.', { cause: error });
      throw new CodeBoxError('unavailable', 'The box cannot be measured just now.', {
        cause: error,
        retryAfterSeconds: 1,
      });
    });
    return { ...used, cpuMs: Math.max(0, used.cpuMs - (box.startupCpuMs ?? 0)) };
  };

export type BoxUsage = ReturnType<typeof createBoxUsage>;
