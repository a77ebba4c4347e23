import { createHash } from 'node:crypto';
import type { InstanceSpec } from './driver.ts';

/** Returns a digest that is equal for equal specs; drivers store it to recognise the spec of an instance. */
export const specDigest = (spec: InstanceSpec): string => {
  const { id, token, image, limits, network, takesNetwork = false, placement, parent, gpus, volumes } = spec;
  const { cpus, memoryMb, diskMb, pids } = limits;
  const parts = [
    id,
    token,
    image,
    cpus,
    memoryMb,
    diskMb,
    pids,
    network,
    takesNetwork,
    placement,
    parent,
    gpus,
    volumes,
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
};
