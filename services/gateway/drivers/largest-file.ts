import type { InstanceSpec } from './driver.ts';

/** Returns the size of the largest file that an instance can hold, in MiB: one in a volume may be larger than its disk. */
export const largestFileOf = ({ limits, volumes = [] }: Pick<InstanceSpec, 'limits' | 'volumes'>): number =>
  Math.max(limits.diskMb, ...volumes.map(({ sizeMb }) => sizeMb));
