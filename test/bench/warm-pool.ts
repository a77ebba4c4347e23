import { setTimeout as sleep } from 'node:timers/promises';
import { until } from './deadline.ts';
import type { GatewayProcess } from './gateway-process.ts';

/** The milliseconds of a box from the pool: its creation, its first `1+1`, and both together. */
export interface WarmTimes {
  total: number;
  create: number;
  first: number;
}

/** How many boxes are missing when a pool is looked at more often, and the pause before. */
const [lastLooks, pauseMs] = [3, 250];

const series = /^codebox_pool_instances\{[^}]*state="(\w+)"[^}]*\} (\d+)/gm;

/** Waits until `size` instances are warm and none is being created or destroyed. Resolves with the milliseconds. */
export const untilWarm = async (gateway: GatewayProcess, size: number, withinMs = 180_000): Promise<number> => {
  const startedAt = performance.now();
  const probe = async (): Promise<true | undefined> => {
    const response = await fetch(`${gateway.url}/metrics`, { signal: AbortSignal.timeout(10_000) });
    const counts: Record<string, number> = {};
    for (const [, state = '', n] of (await response.text()).matchAll(series)) counts[state] = Number(n);
    // Each look costs the gateway some milliseconds of CPU time, which a pool that is far from full should get.
    if ((counts.warm ?? 0) < size - lastLooks) await sleep(pauseMs);
    return counts.warm === size && !counts.creating && !counts.destroying ? true : undefined;
  };
  await until(`${size} warm instances`, probe, { withinMs, everyMs: 50 });
  return performance.now() - startedAt;
};

/** Creates a box, runs `1+1` in it, and deletes it. Throws if the box is not from the pool, or the result is wrong. */
export const timeWarmBox = async ({ client }: GatewayProcess): Promise<WarmTimes> => {
  const startedAt = performance.now();
  const { id, kind, ms: create, status } = await client.create();
  if (id === undefined || kind !== 'warm') throw new Error(`expected a warm box: ${status} ${kind}`);
  try {
    const runAt = performance.now();
    if ((await client.execute(id, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
    const now = performance.now();
    return { total: now - startedAt, create, first: now - runAt };
  } finally {
    await client.boxes.delete(id);
  }
};
