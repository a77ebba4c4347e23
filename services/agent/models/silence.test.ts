import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { listen } from './silence.ts';

const never = new AbortController().signal;
const explain = (_thrown: unknown, wasOpen: boolean) =>
  new CodeBoxError(wasOpen ? 'bad_gateway' : 'unavailable', 'It broke.');

/** Pieces after the given pauses in ms. Like those of the SDKs, an aborted stream ends as if it were complete. */
async function* after(pauses: readonly number[], signal: AbortSignal) {
  for (const [index, ms] of pauses.entries()) {
    const isThere = await sleep(ms, true, { signal }).catch(() => false);
    if (!isThere) return;
    yield index;
  }
}

const read = async (pieces: AsyncIterable<number>, pauseMs = 0): Promise<number[]> => {
  const all: number[] = [];
  for await (const piece of pieces) {
    all.push(piece);
    await sleep(pauseMs);
  }
  return all;
};

const listenTo = (pauses: readonly number[], seconds: number, signal = never) =>
  listen({ open: async (either) => after(pauses, either), seconds, signal, explain });

test('pieces that arrive in time are passed on, and the time of a slow reader does not count', async () => {
  expect(await read(listenTo([0, 0, 0], 0.2), 300)).toEqual([0, 1, 2]);
});

test('a stream that falls silent ends as unavailable, whether or not it had begun', async () => {
  for (const pauses of [[60_000], [0, 60_000]])
    await expect(read(listenTo(pauses, 0.05))).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('0.05'),
    });
});

test('a stop ends a stream with the reason of the stop', async () => {
  const stop = new AbortController();
  const reading = read(listenTo([0, 60_000], 60, stop.signal));
  stop.abort(new Error('enough'));
  await expect(reading).rejects.toThrow('enough');
});

test('a failure is classified by whether the stream had begun', async () => {
  const fail = async () => {
    throw new Error('x');
  };
  const broken = async () =>
    (async function* () {
      yield 1;
      await fail();
    })();
  const listening = { seconds: 60, signal: never, explain };
  await expect(read(listen({ ...listening, open: fail }))).rejects.toMatchObject({ code: 'unavailable' });
  await expect(read(listen({ ...listening, open: broken }))).rejects.toMatchObject({ code: 'bad_gateway' });
});
