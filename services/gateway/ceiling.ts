import { ConfigurationError } from '../configuration-error.ts';
import type { Template } from './boxes/supply/templates.ts';
import type { Config } from './config.ts';
import type { MachineCapacity } from './drivers/driver.ts';
import type { Capacity } from './store/supply/capacity.ts';

/**
 * Returns the most boxes and memory for all boxes together: as configured, otherwise the memory of the driver and as many boxes of the
 * largest default size as fit. When more boxes are configured than fit, the memory is raised to that number of default-sized boxes. Throws a
 * ConfigurationError when not even one box would fit.
 */
export const readCeiling = (
  { maxBoxes, maxMemoryMb }: Pick<Config, 'maxBoxes' | 'maxMemoryMb'>,
  templates: Iterable<Template>,
  capacity: MachineCapacity | undefined,
): Capacity => {
  const largestMb = Math.max(...[...templates].map(({ limits }) => limits.memoryMb));
  if (maxMemoryMb === undefined && maxBoxes === undefined && capacity === undefined)
    throw new ConfigurationError('CODEBOX_MAX_MEMORY_MB: is needed, because this driver cannot report its capacity');
  const memoryMb = maxMemoryMb ?? Math.max(capacity?.memoryMb ?? 0, (maxBoxes ?? 1) * largestMb);
  if (memoryMb < largestMb)
    throw new ConfigurationError(
      `CODEBOX_MAX_MEMORY_MB: must be at least ${largestMb}, the memory of one box of the largest template`,
    );
  return { instances: maxBoxes ?? Math.floor(memoryMb / largestMb), memoryMb };
};

/** Lowers the maximum memory of each template to the ceiling. */
export const below = (ceiling: Capacity, templates: ReadonlyMap<string, Template>): Map<string, Template> =>
  new Map(
    [...templates].map(([name, template]) => {
      const memoryMb = Math.min(template.maxLimits.memoryMb, ceiling.memoryMb);
      return [name, { ...template, maxLimits: { ...template.maxLimits, memoryMb } }];
    }),
  );
