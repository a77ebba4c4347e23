import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { readMultipart } from './multipart.ts';

const type = 'multipart/form-data; boundary=edge';
const part = (name: string, content: string) =>
  `--edge\r\nContent-Disposition: form-data; name="f"; filename="${name}"\r\n\r\n${content}`;

/** Reads a body; resolves with the content of each file, or the error of its reader. */
const readInto = async (body: Readable, beforeReading: () => Promise<void> = async () => {}) => {
  const files: Record<string, string> = {};
  const write = async (path: string, content: Readable) => {
    await beforeReading();
    files[path] = await text(content).catch((error: Error) => `broken: ${error.message}`);
    if (files[path].startsWith('broken')) throw new Error('the write failed');
  };
  const outcome = await readMultipart(body, type, write, AbortSignal.timeout(5000)).then(
    () => 'whole',
    ({ code }) => code,
  );
  return { files, outcome };
};

test('a body that is cut off fails the write of its current file', async () => {
  const body = Readable.from(
    (async function* () {
      yield Buffer.from(part('cut.txt', 'half of'));
      await new Promise((next) => setTimeout(next, 20));
      throw new Error('gone');
    })(),
  );
  const { files, outcome } = await readInto(body);
  expect(outcome).toBe('invalid_request');
  expect(files['cut.txt']).toMatch(/^broken/);
});

test('the last file of a body without its final boundary is not written as complete', async () => {
  const body = Readable.from([Buffer.from(`${part('one.txt', 'first')}\r\n${part('two.txt', 'half of')}`)]);
  const { files, outcome } = await readInto(body, () => new Promise((next) => setTimeout(next, 50)));
  expect(outcome).toBe('invalid_request');
  // A queued write must not begin afterwards either.
  await new Promise((next) => setTimeout(next, 200));
  expect(files['two.txt'] ?? 'broken: never begun').toMatch(/^broken/);
});

test('files are written completely, one after the other', async () => {
  const body = Readable.from([
    Buffer.from(`${part('one.txt', 'first')}\r\n${part('two.txt', 'second')}\r\n--edge--\r\n`),
  ]);
  expect(await readInto(body)).toEqual({ outcome: 'whole', files: { 'one.txt': 'first', 'two.txt': 'second' } });
});
