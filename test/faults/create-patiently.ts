import { type Box, CodeBoxError } from '#contract';
import { eventually, type RunningGateway } from '../api/harness.ts';

/** Creates a box as clients do, which retry when a response asks for it. */
export const createPatiently = (
  gateway: RunningGateway,
  body: Record<string, unknown>,
  deadlineMs = 120_000,
): Promise<Box> =>
  eventually(async () => {
    try {
      return await gateway.createBox(body);
    } catch (error) {
      const { cause } = error as Error;
      if (cause instanceof CodeBoxError && cause.retryAfterSeconds !== undefined) return false;
      throw error;
    }
  }, deadlineMs);
