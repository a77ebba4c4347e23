import { createHash } from 'node:crypto';
import { type ContainerSpec, containerOptions } from './container.ts';
import type { Daemon } from './daemon.ts';

/** What containers of one driver have in common. */
type CommonSpec = Pick<
  ContainerSpec,
  'runtime' | 'gvisor' | 'takesNetwork' | 'seccomp' | 'dns' | 'packages' | 'systemFiles' | 'privateCgroups'
>;

/** The id of the image that a name means now. The daemon resolves the name when it makes a container; it may lack the image. */
export const findImageId = async (daemon: Daemon, image: string, signal: AbortSignal): Promise<string | undefined> =>
  (await daemon.callIfThere(signal, (docker) => docker.getImage(image).inspect()))?.Id;

/** Stands for what a container from this image would be: the image that the name means now, and the options of this driver. */
export const containerRevision = (image: string, imageId: string | undefined, common: CommonSpec): string => {
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
    .update(JSON.stringify([imageId, containerOptions(any, 'any')]))
    .digest('hex');
};
