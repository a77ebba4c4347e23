import { CodeBoxError } from '#contract';
import { createPatience, type Patience } from '../waiting/patience.ts';

/** A deadline for a blob store: after `ms` of silence the signal aborts with `unavailable`. */
export const createBlobPatience = (ms: number): Patience => createPatience(ms, silentError);

/** Passes content of a blob store on. Patience runs while the next chunk is awaited, not while a slow reader takes its time. */
export async function* patiently(content: AsyncIterable<Buffer>, patience: Patience): AsyncGenerator<Buffer> {
  try {
    patience.wait();
    for await (const chunk of content) {
      patience.rest();
      yield chunk;
      patience.wait();
    }
  } catch (error) {
    throw patience.signal.aborted ? patience.signal.reason : error;
  } finally {
    patience.rest();
  }
}

export const silentError = (cause?: unknown) =>
  new CodeBoxError('unavailable', 'The blob store does not respond.', { cause, retryAfterSeconds: 10 });
