import type { Store } from '../../store/store.ts';
import type { Meter } from '../usage/meter.ts';
import { type AllocationOptions, createAllocation } from './allocation.ts';
import { createInstances } from './instances.ts';
import { createPool, type PoolOptions } from './pool.ts';
import { createQueue } from './queue.ts';
import { createStartSlots } from './start-slots.ts';
import { createStarts, givenUpMs } from './starts.ts';

export interface SupplyOptions
  extends Pick<PoolOptions, 'driver' | 'connections' | 'background' | 'templates' | 'ceiling' | 'onBreaker'>,
    Pick<AllocationOptions, 'onUnfit'> {
  store: Store;
  /** What a start may take on a machine that is not busy. */
  startMs: number;
  /** What the gateways of this host share. */
  dataDir: string;
  meter: Pick<Meter, 'begin' | 'count'>;
  /** How long a box may wait for room. */
  waitMs: number;
}

/** What supplies boxes with instances: the pool, the queue for room, and what chooses between them. */
export const createSupply = (options: SupplyOptions) => {
  const { driver, store, connections, background, meter, ceiling, waitMs, startMs, dataDir } = options;
  const { startsAtOnce } = driver.capabilities;
  const starts = createStarts({ slots: createStartSlots({ place: dataDir, count: startsAtOnce }), startMs });
  const onRoom = () => queue.wake();
  const instances = createInstances({ driver, instances: store.instances, connections, meter, onRoom });
  const queue = createQueue({
    waiting: store.waiting,
    site: driver.site,
    background,
    instances,
    ceiling,
    waitMs,
  });
  const pool = createPool({
    ...options,
    pools: store.pools,
    instances,
    starts,
    givenUpMs: givenUpMs(startMs),
    // The others are for boxes that somebody waits for.
    startsAtOnce: Math.ceil(startsAtOnce / 2),
    onWarm: onRoom,
  });
  return { instances, queue, pool, allocation: createAllocation({ ...options, starts, instances, pool, queue }) };
};
