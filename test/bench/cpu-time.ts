import { readdir, readFile } from 'node:fs/promises';

/** The CPU time that a process has used so far, with all its threads that still run, in ms. */
export const cpuMsOf = async (pid: number): Promise<number> => {
  const threads = await readdir(`/proc/${pid}/task`);
  const nanoseconds = await Promise.all(
    threads.map(async (thread) =>
      Number((await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')).split(' ')[0]),
    ),
  );
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6;
};
