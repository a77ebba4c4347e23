import { createHash } from 'node:crypto';
import type { Daemon } from '../daemon/daemon.ts';
import { type ContainerSpec, containerOptions } from './container.ts';

/** The options that all containers of one driver share. */
type CommonSpec = Pick<
  ContainerSpec,
  'runtime' | 'gvisor' | 'isForked' | 'takesNetwork' | 'seccomp' | 'dns' | 'packages' | 'systemFiles' | 'privateCgroups'
>;

/** Returns the id of the image that a name currently refers to; undefined when the daemon does not have it. */
export const findImageId = async (daemon: Daemon, image: string, signal: AbortSignal): Promise<string | undefined> =>
  (await daemon.callIfThere(signal, (docker) => docker.getImage(image).inspect()))?.Id;

/** Returns a digest of what a container from this image would be created from: the current image, and the options of this driver. */
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
    volumes: [],
    largestFileMb: 1024,
    sockets: { log: '', run: '', passwd: '', group: '', hosts: '', address: '' },
  };
  return createHash('sha256')
    .update(JSON.stringify([imageId, containerOptions(any, 'any')]))
    .digest('hex');
};
