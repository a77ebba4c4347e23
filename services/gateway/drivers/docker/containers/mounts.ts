import { readdir, readFile, readlink } from 'node:fs/promises';
import { isSharedMount } from '../../host/socket-folder.ts';

/**
 * Whether the Docker daemon sees what this process mounts below `path`: both are in one mount namespace, as on a plain host, or the mount is
 * shared, as it can be for a gateway in a container.
 */
export const mountsReachDaemon = async (path: string): Promise<boolean> =>
  (await isSharedMount(path)) || (await sharesFilesWithDaemon());

/** Whether a Docker daemon is in the mount namespace of this process. */
export const sharesFilesWithDaemon = async (): Promise<boolean> => {
  const own = await readlink('/proc/self/ns/mnt');
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    try {
      if ((await readFile(`/proc/${pid}/comm`, 'utf8')) !== 'dockerd\n') continue;
      if ((await readlink(`/proc/${pid}/ns/mnt`)) === own) return true;
    } catch {
      // The process has ended, or this process may not inspect it.
    }
  }
  return false;
};
