import { CodeBoxError } from '#contract';

/** Told at the end of a stream that is cut because the agent stops. */
export const stoppingError = () =>
  new CodeBoxError('unavailable', 'The agent is stopping. The answer goes on being there: ask for it again.');
