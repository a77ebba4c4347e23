import { CodeBoxError } from '#contract';

/** A box sent what its protocol does not have. It is there, so asking again would bring the same. */
export const brokenProtocol = (message: string, cause?: unknown): CodeBoxError =>
  new CodeBoxError('unavailable', message, { cause, reason: 'protocol' });
