import { readFile, writeFile } from 'node:fs/promises';

const KiB = 1024;
const MiB = 1024 * 1024;

const field = async (file: string, name: string): Promise<number> => {
  const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(await readFile(file, 'utf8'))?.[1];
  if (found === undefined) throw new Error(`${file} has no ${name}`);
  return (Number(found) * KiB) / MiB;
};

/** The resident memory of a process (RSS) and its proportional share of memory (PSS), in MiB. */
export const residentMiB = (pid: number): Promise<number> => field(`/proc/${pid}/status`, 'VmRSS');
export const proportionalMiB = (pid: number): Promise<number> => field(`/proc/${pid}/smaps_rollup`, 'Pss');

/** The highest resident memory of a process during `work`, in MiB. */
export const peakMiB = async (pid: number, work: () => Promise<void>): Promise<number> => {
  // 5 resets the high-water mark to the current resident memory.
  await writeFile(`/proc/${pid}/clear_refs`, '5');
  await work();
  return await field(`/proc/${pid}/status`, 'VmHWM');
};
