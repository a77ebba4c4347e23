import { CodeBoxError } from '#contract';

/** Sent at the end of a stream that is cut because the agent stops. */
export const stoppingError = () =>
  new CodeBoxError('unavailable', 'The agent is stopping. The answer is stored: read it again later.');
