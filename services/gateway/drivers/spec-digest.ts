import { createHash } from 'node:crypto';
import type { InstanceSpec } from './driver.ts';

/** Equal for equal specs: what a driver keeps of an instance to know its spec again. */
export const specDigest = ({ id, token, image, limits, network, takesNetwork = false }: InstanceSpec): string => {
  const { cpus, memoryMb, diskMb, pids } = limits;
  const parts = [id, token, image, cpus, memoryMb, diskMb, pids, network, takesNetwork];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
};
