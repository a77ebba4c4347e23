import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { CodeBoxError } from '#contract';
import { createCircuit } from './circuit.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const setUp = () => {
  const daemon = { answers: true, probes: 0, told: [] as string[] };
  const circuit = createCircuit({
    probe: async () => {
      daemon.probes += 1;
      if (!daemon.answers) throw new Error('no answer');
    },
    onChange: (state) => daemon.told.push(state),
  });
  return { daemon, circuit };
};

test('a suspicion that the probe does not confirm changes nothing', async () => {
  const { daemon, circuit } = setUp();
  await circuit.check();
  expect((await circuit.enter()).aborted).toBe(false);
  expect(daemon).toMatchObject({ probes: 1, told: [] });
});

test('it opens when the probe fails, gives up who waits, and refuses at once until its pause is over', async () => {
  const { daemon, circuit } = setUp();
  const waiting = await circuit.enter();
  daemon.answers = false;
  await Promise.all([circuit.check(), circuit.check()]);
  expect(waiting.aborted).toBe(true);
  const refused = await circuit.enter().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(CodeBoxError);
  expect(refused).toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 });
  expect(daemon).toMatchObject({ probes: 1, told: ['open'] });
});

test('half open it probes once for all who come, waits longer each time, and closes on an answer', async () => {
  const { daemon, circuit } = setUp();
  daemon.answers = false;
  await circuit.check();
  for (const pauseMs of [1000, 2000, 4000, 5000, 5000]) {
    vi.advanceTimersByTime(pauseMs - 1);
    const before = daemon.probes;
    await expect(circuit.enter()).rejects.toThrow();
    expect(daemon.probes).toBe(before);
    vi.advanceTimersByTime(1);
    await Promise.all([expect(circuit.enter()).rejects.toThrow(), expect(circuit.enter()).rejects.toThrow()]);
    expect(daemon.probes).toBe(before + 1);
  }
  vi.advanceTimersByTime(5000);
  daemon.answers = true;
  expect((await circuit.enter()).aborted).toBe(false);
  expect(daemon.told).toEqual(['open', 'closed']);
});
