import { readdirSync, readFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { CodeBoxError } from '#contract';
import { isMissing } from '../../../missing-file.ts';
import { canDo } from '../probe.ts';
import { runHostCommand } from './host-command.ts';

const MiB = 1024 * 1024;

/** Creates a sparse file of `sizeMb` MiB for an image. */
export const makeSparseFile = async (path: string, sizeMb: number): Promise<void> => {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.truncate(Math.ceil(sizeMb) * MiB);
  } finally {
    await file.close();
  }
};

/**
 * Returns the command, without the path, that makes an ext4 image whose root folder belongs to `uid`. It has no journal, because a disk is
 * discarded with its box after a crash of the host, and reserves no blocks for root. This takes about 10 ms and less than 1 MB.
 */
export const formatCommand = (uid: number): string[] => [
  ...['mkfs.ext4', '-q', '-F', '-m', '0', '-b', '4096', '-i', '8192', '-O', '^has_journal,^resize_inode'],
  ...['-E', `root_owner=${uid}:${uid},lazy_itable_init=1,nodiscard`],
];

/** Creates an image of `sizeMb` MiB as `formatCommand` does. */
export const makeDiskImage = async (
  path: string,
  { sizeMb, uid, signal }: { sizeMb: number; uid: number; signal: AbortSignal },
): Promise<void> => {
  await makeSparseFile(path, sizeMb);
  await runHostCommand([...formatCommand(uid), path], { signal });
};

/** Attaches an image to a free loop device and returns its path, `/dev/loopN`. */
export const attachLoop = async (path: string, signal: AbortSignal): Promise<string> =>
  (await runHostCommand(['losetup', '--find', '--show', '--nooverlap', path], { signal })).trim();

/**
 * Detaches every loop device of an image. The kernel detaches a mounted one as soon as it is unmounted, so a crash of this process leaves no
 * device behind.
 */
export const detachLoops = async (path: string, signal: AbortSignal): Promise<void> => {
  for (const device of await loopsOf(path, signal)) {
    const file = await openLoop(path, device, signal);
    try {
      if (file) await runHostCommand(['losetup', '--detach', device], { signal });
    } finally {
      await file?.close();
    }
  }
};

/**
 * Opens a loop device, which then stays that of its image until it is closed. Returns undefined unless it is one of this image: the kernel may
 * have detached it since it was looked up, and another image may have it now.
 */
export const openLoop = async (path: string, device: string, signal: AbortSignal): Promise<FileHandle | undefined> => {
  const file = await open(device).catch(() => undefined);
  try {
    if ((await loopsOf(path, signal)).includes(device)) {
      if (file) return file;
      throw new CodeBoxError('unavailable', 'A disk could not be opened.', { retryAfterSeconds: 1 });
    }
  } catch (error) {
    await file?.close();
    throw error;
  }
  await file?.close();
  return undefined;
};

/** Returns the loop devices of an image. */
const loopsOf = async (path: string, signal: AbortSignal): Promise<string[]> => {
  // Usually there is none, and to read that takes a hundredth of what a program takes.
  if (!isAttached(path)) return [];
  const devices = await runHostCommand(['losetup', '--noheadings', '--output', 'NAME', '--associated', path], {
    signal,
  });
  return devices.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
};

/**
 * Whether a loop device may be attached to an image. The kernel has its path from the root of the file system that the image is on, or of a
 * namespace that may be gone; so only the end of it is compared.
 */
const isAttached = (path: string): boolean => {
  const names = path.split('/').slice(-2);
  return readdirSync('/sys/block')
    .filter((device) => device.startsWith('loop'))
    .some((device) => {
      const attached = backingFileOf(device);
      return attached.endsWith(`/${names.join('/')}`) || attached === `/${names[1]}`;
    });
};

/** Returns the path that the kernel has for the file of a loop device; an empty one without a file. */
const backingFileOf = (device: string): string => {
  try {
    return readFileSync(`/sys/block/${device}/loop/backing_file`, 'utf8').replace(/( \(deleted\))?\n$/, '');
  } catch (error) {
    if (isMissing(error)) return '';
    throw error;
  }
};

/** Whether this process can create and mount such images, for which it has to be root and have loop devices. It tries a small one. */
export const canMountImages = async (folder: string): Promise<boolean> =>
  process.getuid?.() === 0 &&
  (await canDo(folder, {
    try: 'truncate -s 8M "$p"; mkfs.ext4 -q -F "$p"; losetup --find --nooverlap "$p"',
    undo: 'losetup --noheadings --output NAME --associated "$p" | xargs -r losetup --detach; rm -f "$p"',
  }));
