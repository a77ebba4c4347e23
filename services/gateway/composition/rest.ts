import type { Directory } from '../boxes/life/directory.ts';
import type { Endings } from '../boxes/life/endings.ts';
import type { Checkpoints } from '../boxes/rest/checkpoints.ts';
import { createConnecting } from '../boxes/rest/connecting.ts';
import { createHibernation } from '../boxes/rest/hibernation.ts';
import { createLeases } from '../boxes/rest/leases.ts';
import { createRest } from '../boxes/rest/rest.ts';
import type { TenantQuotas } from '../boxes/usage/quotas.ts';
import type { TenantVolumes } from '../boxes/volumes/volumes.ts';
import type { Platform } from './platform.ts';
import type { Supply } from './supply.ts';

export interface RestParts {
  checkpoints: Checkpoints;
  supply: Supply;
  directory: Directory;
  endings: Endings;
  quotas: TenantQuotas;
  volumes: TenantVolumes;
  /** Writes the pending ends of executions and uses of boxes. */
  flush: () => Promise<void>;
}

/** Builds the parts that put boxes to rest and wake them. */
export const openRest = (platform: Platform, parts: RestParts) => {
  const { checkpoints, supply, directory, endings, quotas, volumes, flush } = parts;
  const { driver, store, connections, background, metrics } = platform;
  const { tasks } = store;
  const leases = createLeases({ tasks, background });
  const connecting = createConnecting({ driver, store, directory, leases, background });
  const hibernation = createHibernation({
    driver,
    store,
    connections,
    directory,
    catalog: supply.catalog,
    allocation: supply.allocation,
    instances: supply.instances,
    leases,
    checkpoints,
    connecting,
    volumes,
    background,
    onDone: (task, ms) => metrics.rests.observe({ task }, ms / 1000),
  });
  const canFreeze = driver.capabilities.freeze;
  const rest = createRest({ store, directory, endings, hibernation, connecting, quotas, canFreeze, flush });
  return { hibernation, rest };
};
