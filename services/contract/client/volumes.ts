import {
  type CreateVolume,
  tenantVolumeSchema,
  type Volume,
  type VolumeQuery,
  volumePageSchema,
} from '../boxes/volumes.ts';
import { type CallOptions, pathOf, type Transport } from './transport.ts';

/** File systems that boxes share. A volume is named by its id, its name, or `user:name`. */
export const createVolumes = (transport: Transport) => ({
  /** Creates a volume, or returns the one of this name. */
  create: (body: CreateVolume, options?: CallOptions): Promise<Volume> =>
    transport.json(tenantVolumeSchema, { method: 'POST', path: pathOf('volumes'), json: body, options }),

  read: (volume: string, options?: CallOptions): Promise<Volume> =>
    transport.json(tenantVolumeSchema, { path: pathOf('volumes', volume), options }),

  /** Newest first. */
  list: (query: Partial<Omit<VolumeQuery, 'cursor'>> = {}, options?: CallOptions) =>
    transport.items(volumePageSchema, { path: pathOf('volumes'), query, options }),

  /** Deletes a volume with its files. */
  delete: (volume: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('volumes', volume), options }),
});
