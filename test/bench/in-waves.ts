/** Runs a task `count` times in waves of `atOnce`. Resolves with the results in order. */
export const inWaves = async <T>(count: number, atOnce: number, task: (n: number) => Promise<T>): Promise<T[]> => {
  const results: T[] = [];
  for (let n = 0; n < count; n += atOnce) {
    const wave = Array.from({ length: Math.min(atOnce, count - n) }, (_, i) => task(n + i));
    results.push(...(await Promise.all(wave)));
  }
  return results;
};
