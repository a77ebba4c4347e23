/** Summary of many samples of one measure; the 95th and 99th percentiles are those towards the bad end. */
export interface Summary {
  n: number;
  p50: number;
  p95: number;
  p99: number;
  best: number;
  worst: number;
}

/** Percentiles by the nearest rank, in the unit of the samples. Throws if there are no samples. */
export const summarise = (samples: readonly number[], bad: 'high' | 'low' = 'high'): Summary => {
  if (samples.length === 0) throw new Error('there are no samples to sum up');
  const sorted = [...samples].sort((one, other) => (bad === 'high' ? one - other : other - one));
  const at = (share: number) => round(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN);
  return { n: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), best: at(0), worst: at(1) };
};

/** Rounds to three decimal places, more than the precision of any measure here. */
export const round = (value: number): number => Math.round(value * 1000) / 1000;
