import type { Notice } from '../../../waiting/notice.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceStore } from '../../store/box/instances.ts';
import type { Meter } from '../usage/meter.ts';

export interface InstancesOptions {
  driver: Pick<Driver, 'destroy'>;
  instances: InstanceStore;
  connections: BoxConnections;
  meter: Pick<Meter, 'begin' | 'count'>;
  /** Published when there is room for one more instance. */
  room: Pick<Notice, 'publish'>;
}

const destroyDeadlineMs = 30_000;

/** Destroys instances, and meters them until then. */
export const createInstances = ({ driver, instances, connections, meter, room }: InstancesOptions) => {
  /** Destroys an instance, then removes its row. If that fails, the row stays and a sweep tries again. */
  const destroy = async (id: string): Promise<void> => {
    connections.drop(id);
    await meter.count(id);
    await driver.destroy(id, AbortSignal.timeout(destroyDeadlineMs));
    await instances.forget(id);
    room.publish();
  };

  return {
    destroy,

    /** Notes the CPU time that an instance had used when its box got it: what it uses later counts for the box. */
    handOut: meter.begin,

    /** Takes an instance from its box, if it had one, and destroys it. */
    async abandon(id: string): Promise<void> {
      await instances.abandon(id);
      await destroy(id);
    },
  };
};

export type Instances = ReturnType<typeof createInstances>;
