import { setTimeout as sleep } from 'node:timers/promises';

/** Asks `probe` until it answers something, every `everyMs`. Throws after `withinMs`; what `probe` throws ends it at once. */
export const until = async <T>(
  what: string,
  probe: () => Promise<T | undefined>,
  { withinMs, everyMs = 25 }: { withinMs: number; everyMs?: number },
): Promise<T> => {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const answer = await probe();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(`${what}: nothing within ${withinMs} ms`);
    await sleep(everyMs);
  }
};
