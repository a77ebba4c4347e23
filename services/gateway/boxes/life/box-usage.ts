import { CodeBoxError } from '#contract';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import { refOf } from '../box-ref.ts';
import { sampleOne } from '../usage/sample.ts';
import type { Lifecycle } from './lifecycle.ts';

/** A box and what embodies it. */
export interface EmbodiedBox {
  box: Pick<BoxRow, 'id' | 'tenantId' | 'limits' | 'startupCpuMs'>;
  instance: string;
}

export interface BoxUsageOptions {
  driver: Pick<Driver, 'usage'>;
  lifecycle: Pick<Lifecycle, 'whyGone'>;
}

const sampleMs = 2000;

/**
 * What one box uses, counted by the host: what a box says of its use is not asked for. What it had used when it began to
 * serve is not its user's and not in `cpuMs`. Undefined while the host cannot tell; throws `gone` when nothing embodies the box any
 * more.
 */
export const createBoxUsage =
  ({ driver, lifecycle }: BoxUsageOptions) =>
  async ({ box, instance }: EmbodiedBox): Promise<InstanceUsage | undefined> => {
    const used = await sampleOne(driver, instance, sampleMs);
    if (used) return { ...used, cpuMs: Math.max(0, used.cpuMs - (box.startupCpuMs ?? 0)) };
    const cause = await lifecycle.whyGone(refOf(box)).catch(() => undefined);
    if (cause) throw new CodeBoxError('gone', cause.detail ?? 'The box is gone.');
    return undefined;
  };

export type BoxUsage = ReturnType<typeof createBoxUsage>;
