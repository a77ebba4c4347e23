import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { attachLoop, canMountImages, detachLoops, makeDiskImage } from '../host/disk-image.ts';
import { listNames } from '../host/folder-list.ts';
import type { Daemon } from './daemon/daemon.ts';

/** The volume of a box: its name, and the loop device of its image. */
export interface Volume {
  name: string;
  device: string;
}

/**
 * The volumes of boxes at `/mnt`. If this process may use loop devices, each is an ext4 image that the daemon mounts itself (a `local`
 * volume of type ext4), so nothing has to be mounted here and this process may itself run in a container. Otherwise a box gets a tmpfs of
 * that size, which counts as its memory.
 */
export const createDisks = async (daemon: Daemon, { folder, prefix }: { folder: string; prefix: string }) => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const kind: 'image' | 'tmpfs' = (await canMountImages(folder)) ? 'image' : 'tmpfs';
  const imagePath = (id: string) => `${folder}/${id}.ext4`;
  const volumeName = (id: string) => `${prefix}-${id}`;

  return {
    kind,
    /** Creates the image. The daemon creates the volume together with the container. */
    async make(id: string, { sizeMb, uid }: { sizeMb: number; uid: number }, signal: AbortSignal): Promise<Volume> {
      await makeDiskImage(imagePath(id), { sizeMb, uid, signal });
      return { name: volumeName(id), device: await attachLoop(imagePath(id), signal) };
    },
    /** Detaches the loop device after the start: from then on only the mount holds it. */
    async release(id: string, signal: AbortSignal): Promise<void> {
      await detachLoops(imagePath(id), signal);
    },
    /** Removes volume and image. Idempotent; the container must have been removed. */
    async remove(id: string, signal: AbortSignal): Promise<void> {
      await daemon.callIfThere(signal, (docker, abortSignal) =>
        docker.getVolume(volumeName(id)).remove({ force: true, abortSignal }),
      );
      // The gateway that created it may have had images.
      if (!existsSync(imagePath(id))) return;
      await detachLoops(imagePath(id), signal);
      await rm(imagePath(id), { force: true });
    },
    list: () => listNames(folder, '.ext4'),
  };
};

export type Disks = Awaited<ReturnType<typeof createDisks>>;
