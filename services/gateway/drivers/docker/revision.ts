import { createHash } from 'node:crypto';
import { type ContainerSpec, containerOptions } from './container.ts';
import type { Daemon } from './daemon.ts';

/** What containers of one driver have in common. */
type CommonSpec = Pick<
  ContainerSpec,
  'runtime' | 'gvisor' | 'takesNetwork' | 'seccomp' | 'dns' | 'packages' | 'systemFiles' | 'privateCgroups'
>;

/** Stands for what a container from this image would be: the image that the name means now, and the options of this driver. */
export const containerRevision = async (
  daemon: Daemon,
  image: string,
  common: CommonSpec,
  signal: AbortSignal,
): Promise<string> => {
  // The daemon resolves the name when it makes a container; one that it lacks is a revision too.
  const found = await daemon.callIfThere(signal, (docker) => docker.getImage(image).inspect());
  const any: ContainerSpec = {
    ...common,
    id: 'any',
    token: '',
    image,
    limits: { cpus: 1, memoryMb: 1024, diskMb: 1024, pids: 256 },
    network: 'none',
    networkName: 'none',
    dockerLabels: {},
    uid: 1000,
    volume: undefined,
    sockets: { log: '', run: '', passwd: '', group: '', hosts: '', address: '' },
  };
  return createHash('sha256')
    .update(JSON.stringify([found?.Id, containerOptions(any, 'any')]))
    .digest('hex');
};
