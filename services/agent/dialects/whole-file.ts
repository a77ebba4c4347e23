import type { Readable } from 'node:stream';

/** Reads a stream into memory; closes it and returns undefined when it is longer than `maxBytes`. */
export const readWhole = async (body: Readable, maxBytes: number): Promise<Buffer | undefined> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};
