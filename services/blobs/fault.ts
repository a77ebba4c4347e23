import { CodeBoxError } from '#contract';

/**
 * Translates errors of a store. Errors of the content that it was given, and those for a missing blob, stay unchanged.
 */
export const translateFault = async <T>(call: () => Promise<T>): Promise<T> => {
  try {
    return await call();
  } catch (cause) {
    if (cause instanceof CodeBoxError) throw cause;
    throw new CodeBoxError('unavailable', 'The store of blobs does not work.', { cause, retryAfterSeconds: 5 });
  }
};
