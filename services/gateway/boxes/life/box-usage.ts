import { CodeBoxError } from '#contract';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import { refOf } from '../box-ref.ts';
import { sampleOne } from '../usage/sample.ts';
import type { Endings } from './endings.ts';

/** A box and the id of its instance. */
export interface BoxInstance {
  box: Pick<BoxRow, 'id' | 'tenantId' | 'limits' | 'startupCpuMs'>;
  instance: string;
}

export interface BoxUsageOptions {
  driver: Pick<Driver, 'usage'>;
  endings: Pick<Endings, 'causeOfLoss'>;
}

const sampleMs = 2000;

/**
 * Measures what a box uses, as its host counts it. A box is not trusted to report its own use. `cpuMs` leaves out what the instance
 * used before the box was ready. Resolves with undefined while the host has no sample; throws `gone` when the box has no instance.
 */
export const createBoxUsage =
  ({ driver, endings }: BoxUsageOptions) =>
  async ({ box, instance }: BoxInstance): Promise<InstanceUsage | undefined> => {
    const used = await sampleOne(driver, instance, sampleMs);
    if (used) return { ...used, cpuMs: Math.max(0, used.cpuMs - (box.startupCpuMs ?? 0)) };
    const cause = await endings.causeOfLoss(refOf(box)).catch(() => undefined);
    if (cause) throw new CodeBoxError('gone', cause.detail ?? 'The box is gone.');
    return undefined;
  };

export type BoxUsage = ReturnType<typeof createBoxUsage>;
