import { toModelError } from './failures.ts';
import type { ModelRequest } from './model.ts';
import { listen } from './silence.ts';

interface Speaker {
  id: string;
  key: string | undefined;
  silenceSeconds: number;
}

/** What a model's server sends in answer to a request: it may not fall silent, and what it fails with is told as model.ts says. */
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
