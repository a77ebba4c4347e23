import { open } from 'node:fs/promises';
import { canDo } from '../probe.ts';
import { runHostCommand } from './host-command.ts';

const MiB = 1024 * 1024;

/**
 * Makes a sparse ext4 image of `sizeMb` MiB whose root folder belongs to `uid`. It has no journal (what a crash of the host
 * leaves is thrown away with the box) and keeps no blocks back for root. Takes about 10 ms and under 1 MB.
 */
export const makeDiskImage = async (
  path: string,
  { sizeMb, uid, signal }: { sizeMb: number; uid: number; signal: AbortSignal },
): Promise<void> => {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.truncate(Math.ceil(sizeMb) * MiB);
  } finally {
    await file.close();
  }
  const features = '^has_journal,^resize_inode';
  const extended = `root_owner=${uid}:${uid},lazy_itable_init=1,nodiscard`;
  await runHostCommand(
    ['mkfs.ext4', '-q', '-F', '-m', '0', '-b', '4096', '-i', '8192', '-O', features, '-E', extended, path],
    { signal },
  );
};

/** Attaches an image to a free loop device and gives its path, `/dev/loopN`. */
export const attachLoop = async (path: string, signal: AbortSignal): Promise<string> =>
  (await runHostCommand(['losetup', '--find', '--show', '--nooverlap', path], { signal })).trim();

/**
 * Detaches every loop device of an image. One that is still mounted goes as soon as the mount does: the kernel does that by
 * itself, so a crash of ours leaves no device behind.
 */
export const detachLoops = async (path: string, signal: AbortSignal): Promise<void> => {
  for (const device of await loopsOf(path, signal)) {
    try {
      await runHostCommand(['losetup', '--detach', device], { signal });
    } catch (error) {
      // It may have gone by itself meanwhile.
      if ((await loopsOf(path, signal)).includes(device)) throw error;
    }
  }
};

const loopsOf = async (path: string, signal: AbortSignal): Promise<string[]> => {
  const devices = await runHostCommand(['losetup', '--noheadings', '--output', 'NAME', '--associated', path], {
    signal,
  });
  return devices.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
};

/** Whether this process can make and mount such images: it is root and has loop devices. Tried once, with a small one. */
export const canMountImages = async (folder: string): Promise<boolean> =>
  process.getuid?.() === 0 &&
  (await canDo(folder, {
    try: 'truncate -s 8M "$p"; mkfs.ext4 -q -F "$p"; losetup --find --nooverlap "$p"',
    undo: 'losetup --noheadings --output NAME --associated "$p" | xargs -r losetup --detach; rm -f "$p"',
  }));
