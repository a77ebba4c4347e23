import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { createBackground } from '../../../waiting/background.ts';
import type { ExecutionEnd, ExecutionRow } from '../../store/box/executions.ts';
import { createRecorder } from './recorder.ts';

const row = (n: number) => ({ id: `exe_${n}`, boxId: 'box_1', context: null, language: null }) as ExecutionRow;
const done = { seq: 2, type: 'done', status: 'ok', durationMs: 1, stateLost: false } as const;

/** Makes a recorder on a database that is down while `isAway` is true. */
const setUp = () => {
  const state = { isAway: true, dropped: 0, written: [] as string[], largest: 0, onWrite: (_written: number) => {} };
  const finish = async (ends: readonly ExecutionEnd[]) => {
    if (state.isAway) throw new Error('wrapped', { cause: new CodeBoxError('unavailable', 'away') });
    state.largest = Math.max(state.largest, ends.length);
    const ids = ends.map(({ id }) => id);
    state.written.push(...ids);
    if (state.written.length < 1000) state.onWrite(state.written.length);
    return ids;
  };
  const background = createBackground(() => {});
  const onDrop = (count: number) => {
    state.dropped += count;
  };
  const recorder = createRecorder({ executions: { finish }, touch: async () => {}, background, onDrop });
  return { state, recorder, background };
};

test('ends that cannot be written are kept, in order, and written automatically when the database is back', async () => {
  const { state, recorder, background } = setUp();
  for (let n = 0; n < 3; n++) recorder.record(row(n), done);
  await expect(recorder.flush()).rejects.toThrow();
  recorder.record(row(3), done);
  state.isAway = false;
  await background.drain(10_000);
  expect(state.written).toEqual(['exe_0', 'exe_1', 'exe_2', 'exe_3']);
  expect(state.dropped).toBe(0);
});

test('the buffer is bounded; ends beyond it are dropped and counted, and the others are written in pages', async () => {
  const { state, recorder, background } = setUp();
  for (let n = 0; n < 10_005; n++) recorder.record(row(n), done);
  expect(state.dropped).toBe(5);
  const long = { ...done, cause: { code: 'signal', detail: 'x'.repeat(9 * 1024 * 1024) } };
  await expect(recorder.flush()).rejects.toThrow();
  state.isAway = false;
  await recorder.flush();
  expect(state.written.length).toBe(10_000);
  expect(state.largest).toBeLessThanOrEqual(500);
  state.isAway = true;
  for (let n = 0; n < 2; n++) recorder.record(row(n), long);
  await expect(recorder.flush()).rejects.toThrow();
  expect(state.dropped).toBe(6);
  state.isAway = false;
  await background.drain(10_000);
});

test('a flush also waits for a write in progress', async () => {
  const { state, recorder, background } = setUp();
  state.isAway = false;
  recorder.record(row(0), done);
  const [first, second] = [recorder.flush(), recorder.flush()];
  await second;
  expect(state.written).toEqual(['exe_0']);
  await first;
  await background.drain(1000);
});

test('a flush does not wait for ends that come after it', async () => {
  const { state, recorder, background } = setUp();
  state.isAway = false;
  state.onWrite = (n) => recorder.record(row(n), done);
  recorder.record(row(0), done);
  await recorder.flush();
  state.onWrite = () => {};
  expect(state.written).toEqual(['exe_0']);
  await background.drain(10_000);
  expect(state.written).toEqual(['exe_0', 'exe_1']);
});
