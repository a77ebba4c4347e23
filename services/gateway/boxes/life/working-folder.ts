import { posix } from 'node:path';

export const workingFolder = '/mnt/data';

/** Returns a folder of a box as callers see it: relative to the working folder, which is `""`, or absolute when it lies outside. */
export const shownFolder = (folder: string): string => {
  const path = posix.resolve(workingFolder, folder);
  if (path === workingFolder) return '';
  return path.startsWith(`${workingFolder}/`) ? path.slice(workingFolder.length + 1) : path;
};
