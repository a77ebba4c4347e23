import { orAborted } from '../../../waiting/or-aborted.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';

const graceMs = 250;

/** Samples the use of instances; resolves with nothing when the driver does not respond in time. Never throws. */
export const sampleUsage = async (
  driver: Pick<Driver, 'usage'>,
  ids: readonly string[],
  withinMs: number,
): Promise<Map<string, InstanceUsage>> => {
  // The grace lets the driver return the other samples when one instance does not respond.
  const samples = driver.usage(ids, AbortSignal.timeout(withinMs));
  return await orAborted(samples, AbortSignal.timeout(withinMs + graceMs)).catch(() => new Map());
};

/** Samples the use of one instance; undefined when it is unknown. */
export const sampleOne = async (
  driver: Pick<Driver, 'usage'>,
  id: string,
  withinMs: number,
): Promise<InstanceUsage | undefined> => (await sampleUsage(driver, [id], withinMs)).get(id);
