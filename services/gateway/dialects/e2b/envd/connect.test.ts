import type { Context } from 'hono';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Env } from '../../../http/env.ts';
import { readMessages } from './connect.ts';

const message = (text: string): Buffer => {
  const json = JSON.stringify({ text });
  const head = Buffer.alloc(5);
  head.writeUInt32BE(json.length, 1);
  return Buffer.concat([head, Buffer.from(json)]);
};

test('a stream of messages counts as a body of the length of the longest one', async () => {
  let held = 0;
  const holdBody = (bytes: number) => {
    held += bytes;
  };
  const chunks = async function* () {
    for (const length of [10, 1000, 100]) yield message('x'.repeat(length));
  };
  const c = { get: () => holdBody } as unknown as Context<Env>;
  const read = await Array.fromAsync(readMessages(c, chunks(), z.object({ text: z.string() })));
  expect(read.map(({ text }) => text.length)).toEqual([10, 1000, 100]);
  expect(held).toBe(message('x'.repeat(1000)).length);
});
