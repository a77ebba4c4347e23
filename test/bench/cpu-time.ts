import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

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

/** The CPU time of the database of a gateway, with all its processes that still run, in ms. */
export const databaseCpuMs = async (dataDir: string): Promise<number> => {
  const note = await readFile(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8');
  const postmaster = Number.parseInt(note, 10);
  const children = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
  const pids = [postmaster, ...children.trim().split(' ').map(Number)];
  // A process of the database may end meanwhile.
  const times = await Promise.all(pids.map((pid) => cpuMsOf(pid).catch(() => 0)));
  return times.reduce((sum, one) => sum + one, 0);
};

/** The kernel counts hundredths of a second. */
const tickMs = 10;

/** The CPU time that everything on this machine has used so far, in ms. */
export const machineCpuMs = async (): Promise<number> => {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] =
    (await readFile('/proc/stat', 'utf8')).split('\n', 1)[0]?.split(/\s+/).slice(1).map(Number) ?? [];
  return (user + nice + system + irq + softirq) * tickMs;
};
