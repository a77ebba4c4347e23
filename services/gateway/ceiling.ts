import type { Limits } from '#contract';
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

/** The ceiling as it was read last. */
export interface Ceiling extends Readonly<Capacity> {
  /** Reads the capacity again: nodes join and leave a cluster, and quotas change. If that fails, the ceiling stays as it is. */
  reread(): Promise<void>;
}

/** Reads the ceiling with the capacity that `read` returns; see `readCeiling`. */
export const createCeiling = async (
  config: Pick<Config, 'maxBoxes' | 'maxMemoryMb'>,
  templates: readonly Template[],
  read: () => Promise<MachineCapacity | undefined>,
): Promise<Ceiling> => {
  const readNow = async () => readCeiling(config, templates, await read());
  let last = await readNow();
  return {
    get instances() {
      return last.instances;
    },
    get memoryMb() {
      return last.memoryMb;
    },
    async reread() {
      last = await readNow();
    },
  };
};

/** Lowers the maximum memory of each template to the ceiling, and keeps it there when that changes. */
export const below = (ceiling: Readonly<Capacity>, templates: ReadonlyMap<string, Template>): Map<string, Template> => {
  const lower = (limits: Limits): Limits => ({
    ...limits,
    get memoryMb() {
      return Math.min(limits.memoryMb, ceiling.memoryMb);
    },
  });
  return new Map(
    [...templates].map(([name, template]) => [name, { ...template, maxLimits: lower(template.maxLimits) }]),
  );
};
