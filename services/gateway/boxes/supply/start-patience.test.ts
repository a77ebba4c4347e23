import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createPatience } from './start-patience.ts';

const untilAborted = (signal: AbortSignal): Promise<number> => {
  const startedAt = performance.now();
  return new Promise((done) => signal.addEventListener('abort', () => done(performance.now() - startedAt)));
};

test('where many want each processor a start has as many times longer, and ten times at most', async () => {
  const tookMs = async (crowd: number) =>
    createPatience({ startMs: 60, crowd: () => crowd, lookEveryMs: 5 })(undefined, untilAborted);
  const [alone, crowded, hopeless] = await Promise.all([tookMs(0), tookMs(4), tookMs(1000)]);
  expect(alone).toBeGreaterThanOrEqual(55);
  expect(crowded).toBeGreaterThanOrEqual(235);
  expect(hopeless).toBeGreaterThanOrEqual(595);
});

test('what is done in time is not aborted later, and stopping ends it at once', async () => {
  const patience = createPatience({ startMs: 20, crowd: () => 1, lookEveryMs: 5 });
  const kept = await patience(undefined, async (signal) => signal);
  await sleep(60);
  expect(kept.aborted).toBe(false);
  const stop = new AbortController();
  const ended = patience(stop.signal, async (signal) => {
    stop.abort();
    return signal.aborted;
  });
  expect(await ended).toBe(true);
});
