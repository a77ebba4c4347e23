import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createPatience } from './start-patience.ts';

const untilAborted = (signal: AbortSignal): Promise<number> => {
  const startedAt = performance.now();
  return new Promise((done) => signal.addEventListener('abort', () => done(performance.now() - startedAt)));
};

test('a start that waits for what is not its own keeps its time, up to ten times', async () => {
  const patience = createPatience({ startMs: 40, load: () => 1, checkEveryMs: 5 });
  const startedAt = performance.now();
  await patience(undefined, async (signal, hold) => {
    hold(true);
    await sleep(120);
    expect(signal.aborted).toBe(false);
    hold(false);
    await once(signal, 'abort');
  });
  expect(performance.now() - startedAt).toBeGreaterThan(150);
  await patience(undefined, async (signal, hold) => {
    hold(true);
    await once(signal, 'abort');
  });
});

test('the time limit of a start grows with the load per CPU, up to ten times', async () => {
  const tookMs = async (load: number) =>
    createPatience({ startMs: 60, load: () => load, checkEveryMs: 5 })(undefined, untilAborted);
  const [alone, busy, hopeless] = await Promise.all([tookMs(0), tookMs(4), tookMs(1000)]);
  expect(alone).toBeGreaterThanOrEqual(55);
  expect(busy).toBeGreaterThanOrEqual(235);
  expect(hopeless).toBeGreaterThanOrEqual(595);
});

test('a start that completes in time is not aborted later, and a stop aborts it at once', async () => {
  const patience = createPatience({ startMs: 20, load: () => 1, checkEveryMs: 5 });
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
