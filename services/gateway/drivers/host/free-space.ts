import { statfs } from 'node:fs/promises';
import { CodeBoxError } from '#contract';

/** What a new box, its logs and the database beside it take at first. Their disks are sparse: this promises nothing for later. */
const leastBytes = 64 * 1024 * 1024;

/** Throws `unavailable` when the file system of `folder` has no room for another box. */
export const requireFreeSpace = async (folder: string): Promise<void> => {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= leastBytes) return;
  throw new CodeBoxError('unavailable', 'The disk of this host is full.', { retryAfterSeconds: 30 });
};
