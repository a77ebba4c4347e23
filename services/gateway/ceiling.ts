import { ConfigurationError } from '../configuration-error.ts';
import type { Template } from './boxes/supply/templates.ts';
import type { Config } from './config.ts';
import type { MachineCapacity } from './drivers/driver.ts';
import type { Capacity } from './store/supply/capacity.ts';

/**
 * How many boxes there may be, and what they may use of memory together: as configured, else what the driver has for them and as many boxes of
 * the largest default size as that holds. Who configures more boxes than that means it: so many of the default size may be had then.
 * Throws a ConfigurationError when not even one could be.
 */
export const readCeiling = (
  { maxBoxes, maxMemoryMb }: Pick<Config, 'maxBoxes' | 'maxMemoryMb'>,
  templates: Iterable<Template>,
  capacity: MachineCapacity | undefined,
): Capacity => {
  const largestMb = Math.max(...[...templates].map(({ limits }) => limits.memoryMb));
  if (maxMemoryMb === undefined && maxBoxes === undefined && capacity === undefined)
    throw new ConfigurationError('CODEBOX_MAX_MEMORY_MB: is needed, because this driver cannot say how much there is');
  const memoryMb = maxMemoryMb ?? Math.max(capacity?.memoryMb ?? 0, (maxBoxes ?? 1) * largestMb);
  if (memoryMb < largestMb)
    throw new ConfigurationError(
      `CODEBOX_MAX_MEMORY_MB: must be at least ${largestMb}, which a box of the largest template has`,
    );
  return { instances: maxBoxes ?? Math.floor(memoryMb / largestMb), memoryMb };
};

/** The templates with no more memory to ask for than there may be at all. */
export const below = (ceiling: Capacity, templates: ReadonlyMap<string, Template>): Map<string, Template> =>
  new Map(
    [...templates].map(([name, template]) => {
      const memoryMb = Math.min(template.maxLimits.memoryMb, ceiling.memoryMb);
      return [name, { ...template, maxLimits: { ...template.maxLimits, memoryMb } }];
    }),
  );
