import { setTimeout as sleep } from 'node:timers/promises';

export interface ChurnOptions {
  seconds: number;
  perSecond: number;
  /** Maximum of concurrent lives; a life beyond it is skipped. */
  most: number;
  life: () => Promise<void>;
}

export interface Churned {
  lives: number;
  leftOut: number;
  failures: string[];
}

/** Starts lives at a steady rate for a time, then waits for the last one. */
export const churn = async ({ seconds, perSecond, most, life }: ChurnOptions): Promise<Churned> => {
  const result: Churned = { lives: 0, leftOut: 0, failures: [] };
  const current = new Set<Promise<void>>();
  const startedAt = performance.now();
  for (let n = 0; n < seconds * perSecond; n++) {
    await sleep(Math.max(0, startedAt + (n * 1000) / perSecond - performance.now()));
    if (current.size >= most) {
      result.leftOut++;
      continue;
    }
    result.lives++;
    const one = life()
      .catch((error: unknown) => void result.failures.push(String(error)))
      .finally(() => current.delete(one));
    current.add(one);
  }
  await Promise.all(current);
  return result;
};
