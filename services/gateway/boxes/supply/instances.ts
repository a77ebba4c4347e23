import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceStore } from '../../store/box/instances.ts';
import type { Meter } from '../usage/meter.ts';

export interface InstancesOptions {
  driver: Pick<Driver, 'destroy'>;
  instances: InstanceStore;
  connections: BoxConnections;
  meter: Pick<Meter, 'begin' | 'count'>;
  /** There is room for one more. */
  onRoom: () => void;
}

const destroyDeadlineMs = 30_000;

/** The end of instances. */
export const createInstances = ({ driver, instances, connections, meter, onRoom }: InstancesOptions) => {
  /** Ends an instance and then forgets it; its row stays when that fails, so that it is tried again. */
  const destroy = async (id: string): Promise<void> => {
    connections.drop(id);
    await meter.count(id);
    await driver.destroy(id, AbortSignal.timeout(destroyDeadlineMs));
    await instances.forget(id);
    onRoom();
  };

  return {
    destroy,

    /** One was handed out when it had used so much CPU time: what it uses from then on is its box's. */
    handOut: meter.begin,

    /** Ends one that is fit for nobody; its box, if it had one, has nothing more to do with it. */
    async abandon(id: string): Promise<void> {
      await instances.abandon(id);
      await destroy(id);
    },
  };
};

export type Instances = ReturnType<typeof createInstances>;
