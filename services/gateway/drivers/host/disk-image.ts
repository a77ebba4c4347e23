import { readdirSync, readFileSync } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { basename } from 'node:path';
import { CodeBoxError } from '#contract';
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
  const image = await backingFile(path);
  for (const device of loopDevices().filter((one) => isLoopOf(image, one))) {
    const file = await openLoop(path, device);
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
export const openLoop = async (path: string, device: string): Promise<FileHandle | undefined> => {
  const image = await backingFile(path);
  const file = await open(device).catch(() => undefined);
  if (!isLoopOf(image, device)) {
    await file?.close();
    return undefined;
  }
  if (!file) throw new CodeBoxError('unavailable', 'A disk could not be opened.', { retryAfterSeconds: 1 });
  return file;
};

/** Returns the name of an image as the kernel has it. */
const backingFile = (path: string): Promise<string> => realpath(path).catch(() => path);

// The kernel shows what is attached below /sys, from where it is read at once: a program that does that takes a hundred times as long.
const loopDevices = (): string[] =>
  readdirSync('/sys/block').flatMap((name) => (name.startsWith('loop') ? [`/dev/${name}`] : []));

/** Whether a loop device is attached to this image now. */
const isLoopOf = (image: string, device: string): boolean => {
  try {
    return readFileSync(`/sys/block/${basename(device)}/loop/backing_file`, 'utf8').trimEnd() === image;
  } catch {
    // Nothing is attached to it.
    return false;
  }
};

/** Whether this process can create and mount such images, for which it has to be root and have loop devices. It tries a small one. */
export const canMountImages = async (folder: string): Promise<boolean> =>
  process.getuid?.() === 0 &&
  (await canDo(folder, {
    try: 'truncate -s 8M "$p"; mkfs.ext4 -q -F "$p"; losetup --find --nooverlap "$p"',
    undo: 'losetup --noheadings --output NAME --associated "$p" | xargs -r losetup --detach; rm -f "$p"',
  }));
