import { CodeBoxError } from '#contract';

/** What a store throws, as ours; what comes from the content that it was given, or says that a blob is missing, stays as it is. */
export const translateFault = async <T>(call: () => Promise<T>): Promise<T> => {
  try {
    return await call();
  } catch (cause) {
    if (cause instanceof CodeBoxError) throw cause;
    throw new CodeBoxError('unavailable', 'The store of blobs does not work.', { cause, retryAfterSeconds: 5 });
  }
};
