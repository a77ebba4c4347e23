import { statfs } from 'node:fs/promises';
import { CodeBoxError } from '#contract';

/** Initial space for a new box, its logs and the database next to it. Disks are sparse, so this guarantees nothing for later. */
const leastBytes = 64 * 1024 * 1024;

/** Throws `unavailable` when the file system of `folder` has no space for another box. */
export const requireFreeSpace = async (folder: string): Promise<void> => {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= leastBytes) return;
  throw new CodeBoxError('unavailable', 'The disk of this host is full.', { retryAfterSeconds: 30 });
};
