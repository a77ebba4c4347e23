import { type FileHandle, mkdir, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { CodeBoxError } from '#contract';
import { isMissing } from '../../../missing-file.ts';
import { createGate } from '../../../waiting/gate.ts';
import type { Volume } from '../driver.ts';
import { InstanceFailed } from '../instance-failed.ts';
import { detachLoops, openLoop } from './disk-image.ts';
import { listNames } from './folder-list.ts';
import { runHostCommand } from './host-command.ts';

const MiB = 1024 * 1024;
/** Without a limit, volumes take at most this share of their file system. */
const limitShare = 0.5;
/** Volumes leave this share of their file system to boxes. */
const freeShare = 0.1;
const makeMs = 120_000;
/** Volumes are written to the disk as they are made, so others wait. */
const makesAtOnce = 2;
const lockSeconds = 10;
/** A device may be detached between its look-up and its opening, as its last box ends. */
const holdTries = 5;

/** A loop device of a volume, which is not detached before it is disposed of. */
export interface HeldDevice extends AsyncDisposable {
  /** `/dev/loopN`. */
  path: string;
}

export interface VolumeImagesOptions {
  /** The sum of their sizes, in MiB; by default half of the file system. */
  limitMb?: number | undefined;
  /** The share of the file system that they leave free; a tenth by default. */
  free?: number;
}

/**
 * Volumes as ext4 images in a folder. All mounts of an image have to be of one loop device, so that they are one file system. The kernel
 * detaches that device with the last mount. One that a crash of this process leaves attached is detached after its next use, or with the volume.
 */
export const createVolumeImages = async (folder: string, { limitMb, free = freeShare }: VolumeImagesOptions = {}) => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = (id: string) => `${folder}/${id}.ext4`;
  const draft = (id: string) => `${folder}/${id}.new`;

  const gate = createGate(makesAtOnce);

  /** Those that are made at the same time may not count yet. */
  const requireRoom = async (bytes: number): Promise<void> => {
    const { blocks, bavail, bsize } = await statfs(folder);
    const limit = limitMb === undefined ? blocks * bsize * limitShare : limitMb * MiB;
    const retry = { retryAfterSeconds: 60 };
    if ((await usedBytes(folder)) + bytes > limit)
      throw new CodeBoxError('unavailable', 'The volumes of this host have all the space that they may take.', {
        ...retry,
        reason: 'volumes_full',
      });
    if (bavail * bsize - bytes < blocks * bsize * free)
      throw new CodeBoxError('unavailable', 'The disk of this host has no room for such a volume.', {
        ...retry,
        reason: 'volumes_full',
      });
  };

  const openDevice = async (id: string, signal: AbortSignal): Promise<{ device: string; file: FileHandle }> => {
    for (let left = holdTries; ; left--) {
      // Under a lock: two devices of one image would be two file systems, and destroy each other's data.
      const attach = ['losetup', '--find', '--show', '--nooverlap', path(id)];
      // Of the folder, as a lock of an image that was just removed would create it.
      const wait = ['flock', '--wait', String(lockSeconds), folder, ...attach];
      const device = (await runHostCommand(wait, { signal })).trim();
      const file = await openLoop(path(id), device, signal);
      if (file) return { device, file };
      if (left === 1)
        throw new CodeBoxError('unavailable', 'The volume could not be attached.', { retryAfterSeconds: 1 });
    }
  };

  const exists = async (id: string): Promise<boolean> => (await sizeOf(path(id))) !== undefined;

  const make = async ({ id, sizeMb }: Volume, uid: number, signal: AbortSignal): Promise<void> => {
    if (await exists(id)) return;
    await requireRoom(sizeMb * MiB);
    const image = draft(id);
    await rm(image, { force: true });
    const options = { signal, timeoutMs: makeMs };
    try {
      await runHostCommand(['fallocate', '--length', String(sizeMb * MiB), image], options);
      // Nothing is left for the kernel to clear later, which would return blocks to the host.
      const extended = `root_owner=${uid}:${uid},lazy_itable_init=0,lazy_journal_init=0,nodiscard`;
      const format = ['-q', '-F', '-m', '0', '-b', '4096', '-i', '8192', '-e', 'remount-ro', '-E', extended];
      await runHostCommand(['mkfs.ext4', ...format, image], options);
      await runHostCommand(['debugfs', '-w', '-R', 'rmdir lost+found', image], options);
      await rename(image, path(id));
    } catch (error) {
      await rm(image, { force: true });
      throw error;
    }
  };

  return {
    /**
     * Creates an empty volume whose root folder belongs to `uid`; without an effect when it exists. Its whole size is allocated: on a full
     * host, writes to a sparse image would fail after programs were told that they had succeeded. It has a journal, as it outlives a crash of
     * the host.
     */
    async make(volume: Volume, uid: number, signal: AbortSignal): Promise<void> {
      try {
        await gate(signal, () => make(volume, uid, signal));
      } catch (cause) {
        if (!signal.aborted || cause instanceof CodeBoxError) throw cause;
        const detail = 'The volume was not made in time.';
        throw new CodeBoxError('unavailable', detail, { cause, retryAfterSeconds: 5 });
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

/** Returns the size of a file in bytes, undefined when there is none. */
const sizeOf = async (path: string): Promise<number | undefined> => {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
};

const usedBytes = async (folder: string): Promise<number> => {
  let bytes = 0;
  for (const name of await readdir(folder)) bytes += (await sizeOf(`${folder}/${name}`)) ?? 0;
  return bytes;
};

export type VolumeImages = Awaited<ReturnType<typeof createVolumeImages>>;
