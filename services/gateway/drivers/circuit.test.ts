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
  const backend = { responds: true, probes: 0, changes: [] as string[] };
  const circuit = createCircuit({
    backend: 'The backend',
    probe: async () => {
      backend.probes += 1;
      if (!backend.responds) throw new Error('no response');
    },
    onChange: (state) => backend.changes.push(state),
  });
  return { backend, circuit };
};

test('a suspicion that the probe does not confirm leaves the circuit closed', async () => {
  const { backend, circuit } = setUp();
  await circuit.check();
  expect((await circuit.enter()).aborted).toBe(false);
  expect(backend).toMatchObject({ probes: 1, changes: [] });
});

test('a failed probe opens the circuit, aborts pending calls, and refuses new ones during the pause', async () => {
  const { backend, circuit } = setUp();
  const waiting = await circuit.enter();
  backend.responds = false;
  await Promise.all([circuit.check(), circuit.check()]);
  expect(waiting.aborted).toBe(true);
  const refused = await circuit.enter().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(CodeBoxError);
  expect(refused).toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 });
  expect(backend).toMatchObject({ probes: 1, changes: ['open'] });
});

test('a half-open circuit probes once for all callers, pauses longer after each failure, and closes on success', async () => {
  const { backend, circuit } = setUp();
  backend.responds = false;
  await circuit.check();
  for (const pauseMs of [1000, 2000, 4000, 5000, 5000]) {
    vi.advanceTimersByTime(pauseMs - 1);
    const before = backend.probes;
    await expect(circuit.enter()).rejects.toThrow();
    expect(backend.probes).toBe(before);
    vi.advanceTimersByTime(1);
    await Promise.all([expect(circuit.enter()).rejects.toThrow(), expect(circuit.enter()).rejects.toThrow()]);
    expect(backend.probes).toBe(before + 1);
  }
  vi.advanceTimersByTime(5000);
  backend.responds = true;
  expect((await circuit.enter()).aborted).toBe(false);
  expect(backend.changes).toEqual(['open', 'closed']);
});
