import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import type { HttpEnv } from '../env.ts';
import { type StreamWire, streamAs } from './stream.ts';

/** A frame of a kind, a length and a text, of a protocol with an end frame. */
const frame = (kind: number, text: string) => Uint8Array.from([kind, text.length, ...Buffer.from(text)]);
const framed: StreamWire<string> = {
  type: 'application/framed',
  encode: (text) => frame(0, text),
  end: () => frame(2, ''),
  fail: (error) => frame(2, error.code),
};

async function* words(fault?: Error) {
  yield 'one';
  yield 'two';
  if (fault) throw fault;
}

const read = async (wire: StreamWire<string>, events: AsyncGenerator<string>, stopping = new AbortController()) => {
  const faults: unknown[] = [];
  const app = new Hono<HttpEnv>();
  app.get('/stream', (c) =>
    streamAs(c, wire, {
      events,
      leave: new AbortController(),
      stopping: stopping.signal,
      onError: (error) => faults.push(error),
    }),
  );
  const bytes = async () => Buffer.from(await (await app.request('/stream')).arrayBuffer());
  return { faults, bytes };
};

test('a binary wire is sent in frames with an end frame', async () => {
  const { bytes, faults } = await read(framed, words());
  expect(await bytes()).toEqual(Buffer.concat([frame(0, 'one'), frame(0, 'two'), frame(2, '')]));
  expect(faults).toEqual([]);
});

test('an error in mid-stream ends the stream with the error frame of the wire', async () => {
  const gone = new CodeBoxError('gone', 'The box has ended.');
  const { bytes, faults } = await read(framed, words(gone));
  expect(await bytes()).toEqual(Buffer.concat([frame(0, 'one'), frame(0, 'two'), frame(2, 'gone')]));
  expect(faults).toEqual([gone]);
});

test('an internal error is sent without its message', async () => {
  const { bytes } = await read({ ...framed, fail: (error) => error.message }, words(new Error('hush-hush')));
  expect((await bytes()).toString()).not.toContain('hush-hush');
});

test('an error in mid-stream of a wire without an error frame cuts the connection', async () => {
  const { bytes, faults } = await read({ type: 'text/plain', encode: (text) => text }, words(new Error('broken')));
  await expect(bytes()).rejects.toThrow('broken');
  expect(faults.length).toBe(1);
});

test('a stopping server ends a stream with the error frame, or with the closing frame of the wire', async () => {
  async function* untilStop(stopping: AbortController) {
    yield 'one';
    stopping.abort();
    await new Promise(() => {});
  }
  for (const [wire, last] of [
    [framed, frame(2, 'unavailable')],
    [{ ...framed, closing: frame(3, '') }, frame(3, '')],
  ] as const) {
    const stopping = new AbortController();
    const { bytes } = await read(wire, untilStop(stopping), stopping);
    expect(await bytes()).toEqual(Buffer.concat([frame(0, 'one'), last]));
  }
});
