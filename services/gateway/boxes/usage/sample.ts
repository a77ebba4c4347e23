import { orAborted } from '../../../waiting/or-aborted.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';

/** What a driver knows of the use of instances within so many milliseconds; nothing when it does not answer. Never throws. */
export const sampleUsage = async (
  driver: Pick<Driver, 'usage'>,
  ids: readonly string[],
  withinMs: number,
): Promise<Map<string, InstanceUsage>> => {
  const signal = AbortSignal.timeout(withinMs);
  return await orAborted(driver.usage(ids, signal), signal).catch(() => new Map());
};

/** The use of one instance; undefined when it is not known. */
export const sampleOne = async (
  driver: Pick<Driver, 'usage'>,
  id: string,
  withinMs: number,
): Promise<InstanceUsage | undefined> => (await sampleUsage(driver, [id], withinMs)).get(id);
