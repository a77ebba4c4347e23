import { CodeBoxError } from '#contract';

/** The error for a box that violates its protocol. The box is reachable, so a retry would have the same result. */
export const brokenProtocol = (message: string, cause?: unknown): CodeBoxError =>
  new CodeBoxError('unavailable', message, { cause, reason: 'protocol' });
