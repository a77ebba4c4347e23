import { availableParallelism } from 'node:os';
import type { Store } from '../store/store.ts';
import { type AllocationOptions, createAllocation } from './allocation.ts';
import { createInstances } from './instances.ts';
import type { Meter } from './meter.ts';
import { createPool, type PoolOptions } from './pool.ts';
import { createQueue } from './queue.ts';

export interface SupplyOptions
  extends Pick<
      PoolOptions,
      'driver' | 'connections' | 'background' | 'templates' | 'ceiling' | 'startMs' | 'onBreaker'
    >,
    Pick<AllocationOptions, 'onUnfit'> {
  store: Store;
  meter: Pick<Meter, 'begin' | 'count'>;
  /** How long a box may wait for room. */
  waitMs: number;
}

/** What supplies boxes with instances: the pool, the queue for room, and what chooses between them. */
export const createSupply = (options: SupplyOptions) => {
  const { driver, store, connections, background, meter, ceiling, waitMs } = options;
  const onRoom = () => queue.wake();
  const instances = createInstances({ driver, instances: store.instances, connections, meter, onRoom });
  const queue = createQueue({
    waiting: store.waiting,
    driver: driver.name,
    background,
    instances,
    ceiling,
    waitMs,
  });
  const pool = createPool({
    ...options,
    pools: store.pools,
    instances,
    // Starting takes the whole of a processor.
    startsAtOnce: availableParallelism(),
    onWarm: onRoom,
  });
  return { instances, queue, pool, allocation: createAllocation({ ...options, instances, pool, queue }) };
};
