import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '#contract';
import { OtherApi } from '../../box-server/abilities.ts';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { Driver, Instance, InstanceSpec } from '../../drivers/driver.ts';
import { InstanceFailed } from '../../drivers/instance-failed.ts';
import type { TemplateLanguages } from './template-languages.ts';
import type { Template } from './templates.ts';

export interface LaunchOptions {
  driver: Pick<Driver, 'create' | 'inspect'>;
  connections: Pick<BoxConnections, 'to' | 'tokenOf'>;
  languages: Pick<TemplateLanguages, 'revisionOf' | 'record'>;
}

/** An instance whose box server responds. */
export interface ServingInstance {
  address: string;
  server: BoxConnection;
}

const inspectEveryMs = 300;
const pollMs = 20;

/** Creates instances of templates, and records the languages that each reports. */
export const createLaunch = ({ driver, connections, languages }: LaunchOptions) => {
  /** Waits until a created instance runs and its box server responds. */
  const waitUntilServing = async (created: Instance, signal: AbortSignal): Promise<ServingInstance> => {
    for (let instance: Instance | undefined = created; ; instance = await driver.inspect(created.id, signal)) {
      const isHopeless = instance === undefined || instance.state === 'ended' || instance.why !== undefined;
      if (isHopeless) throw new InstanceFailed(instance?.why ?? { code: 'exit', detail: 'it does not exist any more' });
      const address = instance?.address;
      if (address === undefined) {
        await sleep(inspectEveryMs, undefined, { signal });
        continue;
      }
      const server = connections.to(created.id, address);
      if (await respondsSoon(server, signal)) return { address, server };
    }
  };

  /**
   * Creates an instance and resolves once its box server responds. Throws InstanceFailed when the instance has ended or will never run,
   * OtherApi for a box server that this gateway does not support, or the reason of `signal`.
   */
  return async (
    template: Template,
    spec: Omit<InstanceSpec, 'token' | 'image' | 'template' | 'placement'>,
    signal: AbortSignal,
  ): Promise<ServingInstance> => {
    // Read before the instance is created: its languages must not be recorded for an image that replaces its own meanwhile.
    const revision = await languages.revisionOf(template);
    const { name, image, placement } = template;
    const whole = {
      ...spec,
      token: connections.tokenOf(spec.id),
      image,
      template: name,
      ...(placement && { placement }),
    };
    const serving = await waitUntilServing(await driver.create(whole, signal), signal);
    if (revision !== undefined) languages.record(template, { revision, languages: await serving.server.languages() });
    return serving;
  };
};

export type Launch = ReturnType<typeof createLaunch>;

/** Resolves with whether a box server responds before its instance is to be inspected again. */
const respondsSoon = async (server: Pick<BoxConnection, 'health'>, signal: AbortSignal): Promise<boolean> => {
  const until = performance.now() + inspectEveryMs;
  while (performance.now() < until) {
    try {
      await server.health(signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (!hasCode(error, 'unavailable') || error instanceof OtherApi) throw error;
    }
    await sleep(pollMs, undefined, { signal });
  }
  return false;
};
