/** One value at a moment, in milliseconds of any clock. */
export interface Reading {
  atMs: number;
  value: number;
}

/** The share of a run in which caches fill and code is compiled. */
const warmUpShare = 1 / 3;

/**
 * Returns how much a straight line through the readings rises from the end of the warm-up, the first third, to the end of the run,
 * in the unit of the values. Single peaks hardly affect it. Throws if there are fewer than three readings after the warm-up.
 */
export const growth = (readings: readonly Reading[]): number => {
  const [first, last] = [readings[0], readings.at(-1)];
  if (first === undefined || last === undefined) throw new Error('there are no readings');
  const from = first.atMs + (last.atMs - first.atMs) * warmUpShare;
  const counted = readings.filter(({ atMs }) => atMs >= from);
  if (counted.length < 3) throw new Error(`${counted.length} readings give no trend`);
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const middle = mean(counted.map(({ atMs }) => atMs));
  const level = mean(counted.map(({ value }) => value));
  const rise = counted.reduce((sum, { atMs, value }) => sum + (atMs - middle) * (value - level), 0);
  const spread = counted.reduce((sum, { atMs }) => sum + (atMs - middle) ** 2, 0);
  return (rise / spread) * (last.atMs - from);
};
