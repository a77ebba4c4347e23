import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '#contract';
import { OtherApi } from '../../box-server/abilities.ts';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { Driver, Instance } from '../../drivers/driver.ts';
import { InstanceFailed } from '../../drivers/instance-failed.ts';

export interface ServingOptions {
  driver: Pick<Driver, 'inspect'>;
  connections: Pick<BoxConnections, 'to'>;
}

/** An instance whose box server answers. */
export interface ServingInstance {
  address: string;
  server: BoxConnection;
}

const inspectEveryMs = 300;
const askEveryMs = 20;

/**
 * Waits until an instance that was asked for runs and its box server answers. Throws InstanceFailed when it has ended or will never
 * run, OtherApi for a box server that this gateway does not work with, or what `signal` was aborted with.
 */
export const waitUntilServing = async (
  { driver, connections }: ServingOptions,
  made: Instance,
  signal: AbortSignal,
): Promise<ServingInstance> => {
  for (let instance: Instance | undefined = made; ; instance = await driver.inspect(made.id, signal)) {
    const isHopeless = instance === undefined || instance.state === 'ended' || instance.why !== undefined;
    if (isHopeless) throw new InstanceFailed(instance?.why ?? { code: 'exit', detail: 'it is not there any more' });
    const address = instance?.address;
    if (address === undefined) {
      await sleep(inspectEveryMs, undefined, { signal });
      continue;
    }
    const server = connections.to(made.id, address);
    if (await answersSoon(server, signal)) return { address, server };
  }
};

/** Whether a box server answers before its instance is worth another look. */
const answersSoon = async (server: Pick<BoxConnection, 'health'>, signal: AbortSignal): Promise<boolean> => {
  const until = performance.now() + inspectEveryMs;
  while (performance.now() < until) {
    try {
      await server.health(signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (!hasCode(error, 'unavailable') || error instanceof OtherApi) throw error;
    }
    await sleep(askEveryMs, undefined, { signal });
  }
  return false;
};
