const MiB = 1024 * 1024;

/** Returns the limits of each process of a box that control groups do not cover, by the names of the kernel. */
export const resourceLimitsOf = (largestFileMb: number): Record<string, number> => ({
  NOFILE: 8192,
  CORE: 0,
  MEMLOCK: 65_536,
  FSIZE: largestFileMb * MiB,
});
