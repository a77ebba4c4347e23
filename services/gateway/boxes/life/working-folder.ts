import { posix } from 'node:path';

const workingFolder = '/mnt/data';

/** A folder in a box as callers see it: relative to the working folder, which is `""`; one outside of it absolute. */
export const shownFolder = (folder: string): string => {
  const path = posix.resolve(workingFolder, folder);
  if (path === workingFolder) return '';
  return path.startsWith(`${workingFolder}/`) ? path.slice(workingFolder.length + 1) : path;
};
