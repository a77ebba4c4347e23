import { orAborted } from '../../../waiting/or-aborted.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';

const answerMs = 250;

/** What a driver knows of the use of instances within so many milliseconds; nothing when it does not answer. Never throws. */
export const sampleUsage = async (
  driver: Pick<Driver, 'usage'>,
  ids: readonly string[],
  withinMs: number,
): Promise<Map<string, InstanceUsage>> => {
  // The driver has the time to return what it knows of the others when one instance does not answer.
  const answer = driver.usage(ids, AbortSignal.timeout(withinMs));
  return await orAborted(answer, AbortSignal.timeout(withinMs + answerMs)).catch(() => new Map());
};

/** The use of one instance; undefined when it is not known. */
export const sampleOne = async (
  driver: Pick<Driver, 'usage'>,
  id: string,
  withinMs: number,
): Promise<InstanceUsage | undefined> => (await sampleUsage(driver, [id], withinMs)).get(id);
