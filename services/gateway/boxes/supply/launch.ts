import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '#contract';
import { OtherApi } from '../../box-server/abilities.ts';
import type { BoxConnection, BoxConnections } from '../../box-server/connections.ts';
import type { Driver, Instance, InstanceSpec } from '../../drivers/driver.ts';
import { InstanceFailed } from '../../drivers/instance-failed.ts';
import type { Hold } from './start-patience.ts';
import type { TemplateLanguages } from './template-languages.ts';
import type { Archive, Template } from './templates.ts';

export interface LaunchOptions {
  driver: Pick<Driver, 'create' | 'inspect' | 'changed'>;
  connections: Pick<BoxConnections, 'to' | 'tokenOf'>;
  languages: Pick<TemplateLanguages, 'revisionOf' | 'record'>;
  /** Replaces the files and the environment of an instance by saved ones. */
  fill: (archive: Archive, server: BoxConnection, signal: AbortSignal) => Promise<void>;
}

/** An instance whose box server responds. */
export interface ServingInstance {
  address: string;
  server: BoxConnection;
}

const inspectEveryMs = 300;
/** Each attempt takes CPU time, so those of a long start are further apart: by a fortieth of the time that it has taken. */
const [shortestPauseMs, longestPauseMs] = [20, 250];

/** Returns how long the transfer of a box's files may take: about half an hour for the default disk, more for a larger one. */
export const filesMs = ({ limits }: { limits: { diskMb: number } }): number => 600_000 + limits.diskMb * 1000;

/** Creates instances of templates, and records the languages that each reports. */
export const createLaunch = ({ driver, connections, languages, fill }: LaunchOptions) => {
  /** Resolves when an instance is to be inspected again. Never rejects. */
  const changed = (id: string, signal: AbortSignal): Promise<void> =>
    driver.changed?.(id, signal) ?? sleep(inspectEveryMs, undefined, { signal }).catch(() => {});

  /** Creates an instance, and waits until it runs and its box server responds. */
  const createServing = async (spec: InstanceSpec, signal: AbortSignal, hold: Hold): Promise<ServingInstance> => {
    let runsSinceMs: number | undefined;
    const pauseMs = () => {
      runsSinceMs ??= performance.now();
      return Math.min(Math.max((performance.now() - runsSinceMs) / 40, shortestPauseMs), longestPauseMs);
    };
    // Begun before the instance is created or read, so that no change is missed.
    let change = changed(spec.id, signal);
    for (let instance: Instance | undefined = await driver.create(spec, signal); ; ) {
      const isHopeless = instance === undefined || instance.state === 'ended' || instance.why !== undefined;
      if (isHopeless) throw new InstanceFailed(instance?.why ?? { code: 'exit', detail: 'it does not exist any more' });
      hold(instance?.awaitsHost === true);
      const address = instance?.address;
      const server = address === undefined ? undefined : connections.to(spec.id, address);
      if (address !== undefined && server && (await respondsBefore(change, server, pauseMs, signal)))
        return { address, server };
      await change;
      signal.throwIfAborted();
      change = changed(spec.id, signal);
      instance = await driver.inspect(spec.id, signal);
    }
  };

  /**
   * Creates an instance and resolves once its box server responds. Throws InstanceFailed when the instance has ended or will never run,
   * OtherApi for a box server that this gateway does not support, or the reason of `signal`. While the backend adds a host for it,
   * its time is held.
   */
  return async (
    template: Template,
    spec: Omit<InstanceSpec, 'token' | 'image' | 'template' | 'parent' | 'placement' | 'gpus'>,
    signal: AbortSignal,
    hold: Hold,
  ): Promise<ServingInstance> => {
    // Read before the instance is created: its languages must not be recorded for an image that replaces its own meanwhile.
    const revision = await languages.revisionOf(template);
    const { name, image, parent, placement, gpus, archive } = template;
    const whole = {
      ...spec,
      token: connections.tokenOf(spec.id),
      image,
      template: name,
      ...(parent ? {} : { parent }),
      ...(placement && { placement }),
      ...(gpus && { gpus }),
    };
    const serving = await createServing(whole, signal, hold);
    if (revision !== undefined) await languages.record(template, revision, serving.server);
    if (archive) {
      // How long the files take depends on their size, so they have a deadline of their own.
      hold(true);
      await fill(archive, serving.server, AbortSignal.any([signal, AbortSignal.timeout(filesMs(spec))]));
      hold(false);
    }
    return serving;
  };
};

export type Launch = ReturnType<typeof createLaunch>;

/** Resolves with whether a box server responds before its instance is to be inspected again; `pauseMs` returns the pause between attempts. */
const respondsBefore = async (
  change: Promise<void>,
  server: Pick<BoxConnection, 'health'>,
  pauseMs: () => number,
  signal: AbortSignal,
): Promise<boolean> => {
  let isDue = false;
  void change.then(() => {
    isDue = true;
  });
  // One attempt in any case: the change may have been the start.
  do {
    try {
      await server.health(signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (!hasCode(error, 'unavailable') || error instanceof OtherApi) throw error;
    }
    await Promise.race([change, sleep(pauseMs(), undefined, { signal }).catch(() => {})]);
    signal.throwIfAborted();
  } while (!isDue);
  return false;
};
