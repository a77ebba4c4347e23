import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError, hasCode } from '#contract';
import type { BoxServerClient } from '../../box-server/client.ts';
import type { Driver } from '../../drivers/driver.ts';

const inspectEveryMs = 300;

/** Polls until a box server answers; throws `unavailable` when its instance stopped, or what `signal` was aborted with. */
export const waitUntilServing = async (
  driver: Pick<Driver, 'inspect'>,
  instanceId: string,
  server: Pick<BoxServerClient, 'health'>,
  signal: AbortSignal,
): Promise<void> => {
  let inspectAt = performance.now() + inspectEveryMs;
  for (;;) {
    try {
      await server.health(signal);
      return;
    } catch (error) {
      signal.throwIfAborted();
      if (!hasCode(error, 'unavailable')) throw error;
    }
    if (performance.now() > inspectAt) {
      const instance = await driver.inspect(instanceId, signal);
      if (!instance?.running)
        throw new CodeBoxError('unavailable', 'The box ended while it started.', { cause: instance?.exit });
      inspectAt = performance.now() + inspectEveryMs;
    }
    await sleep(20, undefined, { signal });
  }
};
