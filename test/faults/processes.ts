import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Resolves with the process id of the server in the folder of an embedded PostgreSQL, or 0 if there is none. */
export const postmasterOf = async (folder: string): Promise<number> =>
  Number((await readFile(join(folder, 'data/postmaster.pid'), 'utf8').catch(() => '')).split('\n')[0]);

/** Sends a signal to processes and ignores those that have ended. */
export const signalAll = (pids: number[], signal: NodeJS.Signals): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
};

/** Resolves with a process and its children, which may have process groups of their own. */
export const familyOf = async (parent: number): Promise<number[]> => {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const parents = await Promise.all(
    pids.map(async (pid) =>
      Number((await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')).split(') ')[1]?.split(' ')[1]),
    ),
  );
  return [parent, ...pids.filter((_, index) => parents[index] === parent)];
};
