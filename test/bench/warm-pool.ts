import { until } from './deadline.ts';
import type { GatewayProcess } from './gateway-process.ts';

const series = /^codebox_pool_instances\{[^}]*state="(\w+)"[^}]*\} (\d+)/gm;

/** Waits until so many instances are warm and none is being made or ended; gives the milliseconds that this took. */
export const untilWarm = async (gateway: GatewayProcess, size: number, withinMs = 180_000): Promise<number> => {
  const startedAt = performance.now();
  const look = async (): Promise<true | undefined> => {
    const answer = await fetch(`${gateway.url}/metrics`, { signal: AbortSignal.timeout(10_000) });
    const counts: Record<string, number> = {};
    for (const [, state = '', n] of (await answer.text()).matchAll(series)) counts[state] = Number(n);
    return counts.warm === size && !counts.creating && !counts.destroying ? true : undefined;
  };
  await until(`${size} warm instances`, look, { withinMs, everyMs: 50 });
  return performance.now() - startedAt;
};
