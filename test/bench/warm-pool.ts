import { until } from './deadline.ts';
import type { GatewayProcess } from './gateway-process.ts';

const series = /^codebox_pool_instances\{[^}]*state="(\w+)"[^}]*\} (\d+)/gm;

/** Waits until `size` instances are warm and none is being created or destroyed. Resolves with the milliseconds. */
export const untilWarm = async (gateway: GatewayProcess, size: number, withinMs = 180_000): Promise<number> => {
  const startedAt = performance.now();
  const probe = async (): Promise<true | undefined> => {
    const response = await fetch(`${gateway.url}/metrics`, { signal: AbortSignal.timeout(10_000) });
    const counts: Record<string, number> = {};
    for (const [, state = '', n] of (await response.text()).matchAll(series)) counts[state] = Number(n);
    return counts.warm === size && !counts.creating && !counts.destroying ? true : undefined;
  };
  await until(`${size} warm instances`, probe, { withinMs, everyMs: 50 });
  return performance.now() - startedAt;
};
