import { expect, test } from 'vitest';
import { readLines } from './lines.ts';

async function* chunks(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text);
}

const all = async (source: AsyncIterable<Uint8Array>): Promise<unknown[]> => {
  const values: unknown[] = [];
  for await (const value of readLines(source)) values.push(value);
  return values;
};

test('lines are assembled from chunks cut anywhere, also inside a character', async () => {
  const bytes = Buffer.from('{"a":"é"}\n\n{"b":2}\n');
  const single = async function* () {
    for (const byte of bytes) yield Uint8Array.of(byte);
  };
  expect(await all(single())).toEqual([{ a: 'é' }, { b: 2 }]);
  expect(await all(chunks('{"a":1}\n{"b"', ':2}\n{"c":3}\n'))).toEqual([{ a: 1 }, { b: 2 }, { c: 3 }]);
});

test('a line that is not JSON ends the stream', async () => {
  await expect(all(chunks('{"a":1}\nnonsense\n'))).rejects.toMatchObject({ code: 'unavailable', reason: 'protocol' });
});

test('an endless line is refused at 32 MiB', async () => {
  let sent = 0;
  const endless = async function* () {
    for (;;) {
      sent += 1;
      yield Buffer.alloc(1024 * 1024, 'x');
    }
  };
  await expect(all(endless())).rejects.toMatchObject({ code: 'unavailable', reason: 'protocol' });
  expect(sent).toBeLessThan(40);
});

test('an endless stream is refused at 128 MiB', async () => {
  const line = Buffer.from(`"${'x'.repeat(1024 * 1024)}"\n`);
  const endless = async function* () {
    for (;;) yield line;
  };
  await expect(all(endless())).rejects.toMatchObject({ code: 'too_large' });
});
