import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import { checked } from './client.ts';

const chunk = randomBytes(1024 * 1024);

/** The HTTP address of a file. */
export interface FileAddress {
  url: string;
  dispatcher: Dispatcher;
  headers: Record<string, string>;
}

/** Sends `sizeMiB` as a stream of known length. Resolves with the milliseconds until the response. */
export const upload = async ({ url, dispatcher, headers }: FileAddress, sizeMiB: number): Promise<number> => {
  const startedAt = performance.now();
  const body = Readable.from(repeat(sizeMiB), { objectMode: false });
  const length = String(sizeMiB * chunk.length);
  const response = await request(url, {
    dispatcher,
    method: 'PUT',
    headers: { ...headers, 'content-length': length },
    body,
  });
  await (await checked(response)).body.dump();
  return performance.now() - startedAt;
};

/** Reads and discards a file. Resolves with the milliseconds. Throws unless the file has `sizeMiB`. */
export const download = async ({ url, dispatcher, headers }: FileAddress, sizeMiB: number): Promise<number> => {
  const startedAt = performance.now();
  const response = await checked(await request(url, { dispatcher, headers }));
  let bytes = 0;
  for await (const piece of response.body as AsyncIterable<Buffer>) bytes += piece.length;
  if (bytes !== sizeMiB * chunk.length) throw new Error(`received ${bytes} bytes instead of ${sizeMiB} MiB`);
  return performance.now() - startedAt;
};

/** The content of a file of `sizeMiB`. */
export const wholeFile = (sizeMiB: number): Buffer => Buffer.concat([...repeat(sizeMiB)]);

function* repeat(times: number): Generator<Buffer> {
  for (let i = 0; i < times; i++) yield chunk;
}
