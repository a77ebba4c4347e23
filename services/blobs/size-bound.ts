import { Readable } from 'node:stream';

/**
 * Passes a body on, and fails with `error` when it is longer than `maxBytes`. Nothing is read before its consumer reads. The body itself
 * stays open, so that its sender can still get a response.
 */
export const boundedTo = (body: Readable, maxBytes: number, error: () => Error): Readable => {
  async function* count(): AsyncGenerator<Buffer> {
    let bytes = 0;
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw error();
      yield chunk;
    }
  }
  const bound = Readable.from(count(), { objectMode: false });
  // The consumer gets the error too; one that has left does not, and an error that nobody hears would end the process.
  bound.on('error', () => {});
  return bound;
};
