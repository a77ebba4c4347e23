import type { Background } from '../../../waiting/background.ts';
import type { TenantVolumes } from '../volumes/volumes.ts';

export interface VolumeSweeperOptions {
  volumes: Pick<TenantVolumes, 'isBusy' | 'sweep' | 'strangers'>;
  background: Background;
  /** Called once for each volume that has no row. */
  onStranger: (id: string) => void;
}

/** Removes deleted volumes, and reports those that the database does not know. */
export const createVolumeSweeper = ({ volumes, background, onStranger }: VolumeSweeperOptions) => {
  const reported = new Set<string>();

  return {
    isBusy: volumes.isBusy,
    sweep: background.oneAtATime('remove volumes', volumes.sweep),

    /** Compares the volumes of the driver with the database, without holding up the other sweeps. */
    reconcile: background.oneAtATime('compare volumes', async () => {
      for (const id of await volumes.strangers()) {
        if (!reported.has(id)) onStranger(id);
        reported.add(id);
      }
    }),
  };
};

export type VolumeSweeper = ReturnType<typeof createVolumeSweeper>;
