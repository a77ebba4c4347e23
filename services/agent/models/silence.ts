import { CodeBoxError } from '#contract';

/** Limit for a stream that keeps sending, also when nothing of it is shown: reasoning, arguments of calls. */
const maxSeconds = 900;

interface Listening<T> {
  open: (signal: AbortSignal) => PromiseLike<AsyncIterable<T>>;
  /** How long the stream may be silent. */
  seconds: number;
  signal: AbortSignal;
  /** Converts a failure; `wasOpen` when the answer had begun. */
  explain: (thrown: unknown, wasOpen: boolean) => CodeBoxError;
}

/**
 * Reads the pieces that a provider sends. A stream that is silent for `seconds`, also before its first piece, is
 * closed and ends with `unavailable`, as does one that lasts for a quarter of an hour; time that the reader takes does
 * not count. Rejects with the reason of `signal` when that aborts.
 */
export async function* listen<T>({ open, seconds, signal, explain }: Listening<T>): AsyncGenerator<T, void, undefined> {
  const silence = new AbortController();
  const either = AbortSignal.any([signal, silence.signal]);
  const give = () => silence.abort(new CodeBoxError('unavailable', `The model sent nothing for ${seconds} seconds.`));
  const tooLong = () => silence.abort(new CodeBoxError('unavailable', 'The model did not finish.'));
  const whole = setTimeout(tooLong, maxSeconds * 1000);
  let timer = setTimeout(give, seconds * 1000);
  let wasOpen = false;
  try {
    const pieces = await open(either);
    wasOpen = true;
    for await (const piece of pieces) {
      clearTimeout(timer);
      yield piece;
      timer = setTimeout(give, seconds * 1000);
    }
    // The SDKs end an aborted stream as if it were complete.
    either.throwIfAborted();
  } catch (thrown) {
    either.throwIfAborted();
    throw explain(thrown, wasOpen);
  } finally {
    clearTimeout(whole);
    clearTimeout(timer);
  }
}
