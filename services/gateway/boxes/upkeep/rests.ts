import type { BlobStore } from '../../../blobs/blob-store.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { Task } from '../../store/box/tasks.ts';
import type { Store } from '../../store/store.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import { createCheckpoints } from '../rest/checkpoints.ts';
import { createHibernation } from '../rest/hibernation.ts';
import { createLeases } from '../rest/leases.ts';
import { createRest } from '../rest/rest.ts';
import type { TenantQuotas } from '../usage/quotas.ts';
import type { Idleness } from './idleness.ts';
import { createRestSweeper } from './rest-sweeper.ts';

export interface RestsOptions {
  driver: Driver;
  store: Store;
  blobs: BlobStore;
  connections: BoxConnections;
  lifecycle: Lifecycle;
  background: Background;
  idleness: Idleness;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
  /** Writes what is known and not yet written: ends of executions and uses of boxes. */
  flush: () => Promise<void>;
  lagMs: number;
  checkpointMs: number;
  /** Told of what was done, and how long it took. */
  onDone?: (task: Task, ms: number) => void;
}

/** Boxes at rest, put together: what callers ask for, and what happens by itself. */
export const createRests = (options: RestsOptions) => {
  const { driver, store, blobs, connections, lifecycle, background, idleness, lagMs, checkpointMs, onDone } = options;
  const { tasks } = store;
  const checkpoints = createCheckpoints({ blobs, tasks, background });
  const hibernation = createHibernation({
    driver,
    store,
    connections,
    lifecycle,
    background,
    checkpoints,
    leases: createLeases({ tasks, background }),
    ...(onDone && { onDone }),
  });
  return {
    rest: createRest({
      store,
      lifecycle,
      hibernation,
      quotas: options.quotas,
      canFreeze: driver.capabilities.freeze,
      flush: options.flush,
    }),
    sweeper: createRestSweeper({
      site: driver.site,
      store,
      hibernation,
      checkpoints,
      background,
      idleness,
      lagMs,
      checkpointMs,
    }),
  };
};
