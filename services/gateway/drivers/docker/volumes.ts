import { CodeBoxError } from '#contract';
import type { VolumeMount } from '../driver.ts';
import type { VolumeImages } from '../host/volume-images.ts';
import type { MountedVolume } from './containers/container.ts';
import type { Daemon } from './daemon/daemon.ts';

/** Attaches volumes until `devices` is disposed of: by then the daemon has to have mounted them. */
export const holdVolumes = async (
  images: Pick<VolumeImages, 'hold'> | undefined,
  container: string,
  mounts: readonly VolumeMount[] | undefined,
  devices: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<MountedVolume[]> => {
  const held: MountedVolume[] = [];
  for (const { id, folder, readOnly } of mounts ?? []) {
    if (!images) throw new CodeBoxError('unavailable', 'Volumes are not available here.');
    const name = `${container}-volume-${held.length}`;
    held.push({ name, device: devices.use(await images.hold(id, signal)).path, folder, readOnly });
  }
  return held;
};

/** Removes what the daemon has of the volumes of a container that is gone. The volumes themselves stay. */
export const forgetVolumes = async (
  daemon: Daemon,
  labels: { deployment: string; instance: string },
  signal: AbortSignal,
): Promise<void> => {
  const label = [`codebox.deployment=${labels.deployment}`, `codebox.instance=${labels.instance}`];
  const found = await daemon.call(signal, (docker, abortSignal) =>
    docker.listVolumes({ filters: JSON.stringify({ label }), abortSignal }),
  );
  for (const { Name } of found.Volumes ?? [])
    await daemon.callIfThere(signal, (docker, abortSignal) =>
      docker.getVolume(Name).remove({ force: true, abortSignal }),
    );
};
