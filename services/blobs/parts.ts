import type { Readable } from 'node:stream';

/** Splits a stream into pieces of exactly `size` bytes, the last one shorter; one piece is in memory at a time. */
export async function* inParts(content: Readable, size: number): AsyncGenerator<Buffer, undefined> {
  let part = Buffer.allocUnsafe(size);
  let filled = 0;
  for await (const chunk of content as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; ) {
      const taken = chunk.copy(part, filled, at, at + size - filled);
      at += taken;
      filled += taken;
      if (filled < size) continue;
      yield part;
      part = Buffer.allocUnsafe(size);
      filled = 0;
    }
  }
  if (filled > 0) yield part.subarray(0, filled);
}
