import { setTimeout as sleep } from 'node:timers/promises';

/** Calls `probe` every `everyMs` until it resolves with a value. Throws after `withinMs`, or at once if `probe` throws. */
export const until = async <T>(
  what: string,
  probe: () => Promise<T | undefined>,
  { withinMs, everyMs = 25 }: { withinMs: number; everyMs?: number },
): Promise<T> => {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`${what}: timed out after ${withinMs} ms`);
    await sleep(everyMs);
  }
};
