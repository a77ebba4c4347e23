import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import { checked } from './client.ts';

const chunk = randomBytes(1024 * 1024);

/** Where a file is sent to and read from, with plain HTTP. */
export interface FileAddress {
  url: string;
  dispatcher: Dispatcher;
  headers: Record<string, string>;
}

/** Sends so many MiB as a stream of known length and waits for the answer. Milliseconds. */
export const upload = async ({ url, dispatcher, headers }: FileAddress, sizeMiB: number): Promise<number> => {
  const startedAt = performance.now();
  const body = Readable.from(repeat(sizeMiB), { objectMode: false });
  const length = String(sizeMiB * chunk.length);
  const answer = await request(url, {
    dispatcher,
    method: 'PUT',
    headers: { ...headers, 'content-length': length },
    body,
  });
  await (await checked(answer)).body.dump();
  return performance.now() - startedAt;
};

/** Reads a file to its end without keeping it. Milliseconds; throws when it is not so many MiB long. */
export const download = async ({ url, dispatcher, headers }: FileAddress, sizeMiB: number): Promise<number> => {
  const startedAt = performance.now();
  const answer = await checked(await request(url, { dispatcher, headers }));
  let bytes = 0;
  for await (const piece of answer.body as AsyncIterable<Buffer>) bytes += piece.length;
  if (bytes !== sizeMiB * chunk.length) throw new Error(`${bytes} bytes came of ${sizeMiB} MiB`);
  return performance.now() - startedAt;
};

/** A file of so many MiB, whole. */
export const wholeFile = (sizeMiB: number): Buffer => Buffer.concat([...repeat(sizeMiB)]);

function* repeat(times: number): Generator<Buffer> {
  for (let i = 0; i < times; i++) yield chunk;
}
