import { readdir, readFile, readlink } from 'node:fs/promises';

/** A process of the host. The start time distinguishes it from a later process with the same id. */
export interface ProcessIdentity {
  pid: number;
  /** In clock ticks since the host's start. */
  startTime: string;
}

/** The fields of `/proc/<pid>/stat` that are used here. */
export interface ProcessStat extends ProcessIdentity {
  state: string;
  cpuTicks: number;
  rssPages: number;
}

/** Parses `/proc/<pid>/stat`; returns undefined for any other text. The process name in it may contain spaces and parentheses. */
export const parseStat = (text: string): ProcessStat | undefined => {
  const end = text.lastIndexOf(')');
  const fields = text.slice(end + 2).split(' ');
  const startTime = fields[19];
  if (end < 0 || startTime === undefined) return undefined;
  return {
    pid: Number.parseInt(text, 10),
    startTime,
    state: fields[0] ?? '',
    cpuTicks: Number(fields[11]) + Number(fields[12]),
    rssPages: Number(fields[21]),
  };
};

/** Whether exactly this process is alive; a zombie is not. */
export const isAlive = async ({ pid, startTime }: ProcessIdentity): Promise<boolean> => {
  const found = await statOf(pid);
  return found !== undefined && found.startTime === startTime && found.state !== 'Z';
};

/** Returns all processes in the pid namespace of `pid`, including that one; only those of this user, unless it is root. */
export const namespaceMembers = async (pid: number): Promise<number[]> => {
  const namespace = await namespaceOf(pid);
  if (namespace === undefined) return [];
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map(async (other) => ((await namespaceOf(other)) === namespace ? other : 0)));
  return found.filter((other) => other !== 0);
};

/** Sums the usage of processes from /proc, for sandboxes without a control group. */
export const sumUsage = async (
  pids: readonly number[],
): Promise<{ cpuMs: number; memoryBytes: number; pids: number }> => {
  const all = (await Promise.all(pids.map(statOf))).filter((found) => found !== undefined);
  return {
    // The kernel reports times in hundredths of a second and memory in pages of 4 KiB on the platforms supported here.
    cpuMs: all.reduce((sum, { cpuTicks }) => sum + cpuTicks * 10, 0),
    memoryBytes: all.reduce((sum, { rssPages }) => sum + rssPages * 4096, 0),
    pids: all.length,
  };
};

const statOf = async (pid: number) => {
  try {
    return parseStat(await readFile(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    // The process has ended.
    return undefined;
  }
};

const namespaceOf = async (pid: number): Promise<string | undefined> => {
  try {
    return await readlink(`/proc/${pid}/ns/pid`);
  } catch {
    // The process has ended, or belongs to another user.
    return undefined;
  }
};
