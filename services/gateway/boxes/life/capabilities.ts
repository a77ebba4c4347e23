import { CodeBoxError, type CreateBox, type Limits } from '#contract';
import type { Capabilities, NetworkPolicy } from '../../drivers/driver.ts';

const refusal = (message: string, pointer: string, detail: string) =>
  new CodeBoxError('invalid_request', message, { errors: [{ pointer, detail }] });

/** Throws `invalid_request` for a network policy that the driver does not offer. */
export const requireNetwork = ({ networks, networkObstacles }: Capabilities, network: NetworkPolicy): void => {
  if (networks.includes(network)) return;
  const reason = networkObstacles[network] ?? 'its driver does not know it';
  const detail = `is not offered by this deployment, because ${reason}; it offers ${networks.join(', ')}`;
  throw refusal(`The network policy ${network} is not available.`, '/network', detail);
};

/** Throws `invalid_request` for a limit that differs from the template's where the host applies one limit to all boxes. */
export const requireLimits = ({ limits }: Capabilities, requested: CreateBox['limits'], ofTemplate: Limits): void => {
  for (const name of ['cpus', 'memoryMb', 'diskMb', 'pids'] as const) {
    if (limits[name] !== 'node' || (requested?.[name] ?? ofTemplate[name]) === ofTemplate[name]) continue;
    const detail = `cannot be chosen here: the hosts of this deployment hold one limit for all boxes`;
    throw refusal(`The limit ${name} cannot be chosen.`, `/limits/${name}`, detail);
  }
};

/** Throws `invalid_request` for a box that is to be paused when idle where the driver cannot freeze boxes. */
export const requireOnIdle = ({ freeze }: Capabilities, onIdle: CreateBox['onIdle']): void => {
  if (onIdle !== 'pause' || freeze) return;
  const detail = 'is not offered by this deployment, whose driver cannot freeze boxes; it offers delete, hibernate';
  throw refusal('Boxes cannot be paused.', '/onIdle', detail);
};

export const cannotFreeze = (): CodeBoxError =>
  new CodeBoxError('invalid_request', 'Boxes of this deployment cannot be paused; they can hibernate.');
