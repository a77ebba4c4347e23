import { readdir, readFile, readlink } from 'node:fs/promises';

/** One process of the host. The start time tells it from a later one with the same id. */
export interface ProcessIdentity {
  pid: number;
  /** In clock ticks since the host's start. */
  startTime: string;
}

/** The parts of `/proc/<pid>/stat` that matter here. */
export interface ProcessStat extends ProcessIdentity {
  state: string;
  cpuTicks: number;
  rssPages: number;
}

/** From the text of `/proc/<pid>/stat`; undefined when it is not one. The name in it may hold spaces and parentheses. */
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

/** Whether exactly this process lives; a zombie does not. */
export const isAlive = async ({ pid, startTime }: ProcessIdentity): Promise<boolean> => {
  const found = await statOf(pid);
  return found !== undefined && found.startTime === startTime && found.state !== 'Z';
};

/** All processes in the same pid namespace as `pid`, that one included. Only those of this user, unless it is root. */
export const namespaceMembers = async (pid: number): Promise<number[]> => {
  const namespace = await namespaceOf(pid);
  if (namespace === undefined) return [];
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map(async (other) => ((await namespaceOf(other)) === namespace ? other : 0)));
  return found.filter((other) => other !== 0);
};

/** What a set of processes uses together, from /proc; for where no control group counts. */
export const sumUsage = async (
  pids: readonly number[],
): Promise<{ cpuMs: number; memoryBytes: number; pids: number }> => {
  const all = (await Promise.all(pids.map(statOf))).filter((found) => found !== undefined);
  return {
    // The kernel tells times in hundredths of a second and memory in pages, on every platform that Node runs on.
    cpuMs: all.reduce((sum, { cpuTicks }) => sum + cpuTicks * 10, 0),
    memoryBytes: all.reduce((sum, { rssPages }) => sum + rssPages * 4096, 0),
    pids: all.length,
  };
};

const statOf = async (pid: number) => {
  try {
    return parseStat(await readFile(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    // It is gone.
    return undefined;
  }
};

const namespaceOf = async (pid: number): Promise<string | undefined> => {
  try {
    return await readlink(`/proc/${pid}/ns/pid`);
  } catch {
    // It is gone, or belongs to somebody else.
    return undefined;
  }
};
