import { toModelError } from './failures.ts';
import type { ModelRequest } from './model.ts';
import { listen } from './silence.ts';

interface Speaker {
  id: string;
  key: string | undefined;
  silenceSeconds: number;
}

/**
 * Reads the stream with which a provider replies to a request: ends it when it falls silent, and converts its failures
 * to those of model.ts.
 */
export const hear = <T>(
  { id, key, silenceSeconds }: Speaker,
  { signal }: ModelRequest,
  open: (signal: AbortSignal) => PromiseLike<AsyncIterable<T>>,
): AsyncIterable<T> =>
  listen({
    open,
    seconds: silenceSeconds,
    signal,
    explain: (thrown, wasOpen) => toModelError(thrown, { model: id, key, wasOpen }),
  });
