import { type FileHandle, mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import { CodeBoxError } from '#contract';
import type { Volume } from '../driver.ts';
import { InstanceFailed } from '../instance-failed.ts';
import { detachLoops, loopsOf } from './disk-image.ts';
import { listNames } from './folder-list.ts';
import { runHostCommand } from './host-command.ts';

/** Where instances have their volumes: a folder that only root can write. */
export const volumesFolder = '/volumes';

const MiB = 1024 * 1024;
/** Volumes leave this share of their file system to boxes. */
const freeShare = 0.1;
const makeMs = 120_000;
const lockSeconds = 10;
/** A device may be detached between its look-up and its opening, as its last box ends. */
const holdTries = 5;

/** A loop device of a volume, which is not detached before it is disposed of. */
export interface HeldDevice extends AsyncDisposable {
  /** `/dev/loopN`. */
  path: string;
}

/**
 * Volumes as ext4 images in a folder. All mounts of an image have to be of one loop device, so that they are one file system. The kernel
 * detaches that device with the last mount. One that a crash of this process leaves attached is detached after its next use, or with the volume.
 */
export const createVolumeImages = async (folder: string) => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = (id: string) => `${folder}/${id}.ext4`;
  const draft = (id: string) => `${folder}/${id}.new`;

  const requireRoom = async (bytes: number): Promise<void> => {
    const { blocks, bavail, bsize } = await statfs(folder);
    if (bavail * bsize - bytes >= blocks * bsize * freeShare) return;
    throw new CodeBoxError('unavailable', 'The disk of this host has no room for such a volume.', {
      retryAfterSeconds: 60,
    });
  };

  const openDevice = async (id: string, signal: AbortSignal): Promise<{ device: string; file: FileHandle }> => {
    for (let left = holdTries; ; left--) {
      // Under a lock: two devices of one image would be two file systems, and destroy each other's data.
      const attach = ['losetup', '--find', '--show', '--nooverlap', path(id)];
      const wait = ['flock', '--wait', String(lockSeconds), path(id), ...attach];
      const device = (await runHostCommand(wait, { signal })).trim();
      const file = await open(device).catch(() => undefined);
      if (file && (await loopsOf(path(id), signal)).includes(device)) return { device, file };
      await file?.close();
      if (left === 1)
        throw new CodeBoxError('unavailable', 'The volume could not be attached.', { retryAfterSeconds: 1 });
    }
  };

  const exists = async (id: string): Promise<boolean> => {
    const file = await open(path(id)).catch(() => undefined);
    await file?.close();
    return file !== undefined;
  };

  return {
    /**
     * Creates an empty volume whose root folder belongs to `uid`; without an effect when it exists. Its whole size is allocated: on a full
     * host, writes to a sparse image would fail after programs were told that they had succeeded. It has a journal, as it outlives a crash of
     * the host.
     */
    async make({ id, sizeMb }: Volume, uid: number, signal: AbortSignal): Promise<void> {
      if (await exists(id)) return;
      await requireRoom(sizeMb * MiB);
      const image = draft(id);
      await rm(image, { force: true });
      const options = { signal, timeoutMs: makeMs };
      try {
        await runHostCommand(['fallocate', '--length', String(sizeMb * MiB), image], options);
        const extended = `root_owner=${uid}:${uid},lazy_itable_init=1,nodiscard`;
        const format = ['-q', '-F', '-m', '0', '-b', '4096', '-i', '8192', '-e', 'remount-ro', '-E', extended];
        await runHostCommand(['mkfs.ext4', ...format, image], options);
        await runHostCommand(['debugfs', '-w', '-R', 'rmdir lost+found', image], options);
        await rename(image, path(id));
      } catch (error) {
        await rm(image, { force: true });
        throw error;
      }
    },

    /** Idempotent. Boxes that have it mounted keep it until they end. */
    async remove(id: string, signal: AbortSignal): Promise<void> {
      await rm(draft(id), { force: true });
      if (!(await exists(id))) return;
      await detachLoops(path(id), signal);
      await rm(path(id), { force: true });
    },

    list: () => listNames(folder, '.ext4'),

    /** Attaches a volume. Throws InstanceFailed when it is missing, for an instance that needs it. */
    async hold(id: string, signal: AbortSignal): Promise<HeldDevice> {
      if (!(await exists(id))) throw new InstanceFailed({ code: 'volume', detail: `there is no image of ${id}` });
      const { device, file } = await openDevice(id, signal);
      // It is open, so this takes effect only when it is neither open nor mounted any more.
      await detachLoops(path(id), signal).catch(async (error: unknown) => {
        await file.close();
        throw error;
      });
      return { path: device, [Symbol.asyncDispose]: () => file.close() };
    },
  };
};

export type VolumeImages = Awaited<ReturnType<typeof createVolumeImages>>;
