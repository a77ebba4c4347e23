import { access, constants, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { CodeBoxError } from '#contract';
import { isMissing } from '../../../../missing-file.ts';
import type { BindableLimits, InstanceUsage, Limits } from '../../driver.ts';
import { type CgroupFolders, readCgroupUsage } from '../../host/cgroup.ts';
import { checkCgroupLimits, writeCgroupLimits } from '../../host/cgroup-limits.ts';

/** A hierarchy of control groups: one folder for each controller (v1), or one for all of them (v2). */
export interface CgroupHierarchy {
  version: 1 | 2;
  /** Mount points by controller; all equal with version 2. */
  mounts: Readonly<Record<Controller, string>>;
}

const controllers = ['memory', 'pids', 'cpu', 'cpuacct', 'freezer'] as const;
type Controller = (typeof controllers)[number];
const unifiedControllers = ['memory', 'pids', 'cpu'];

const settleDeadlineMs = 15_000;
/** How often the parent of a group may vanish while the group is made. */
const makeTries = 20;

/** Returns the hierarchy of this host in which this process may create groups, or undefined when there is none. */
export const findCgroupHierarchy = async (): Promise<CgroupHierarchy | undefined> => {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const legacy = Object.fromEntries(
    controllers.map((name) => [
      name,
      mounts.find(([, , type, options]) => type === 'cgroup' && options?.split(',').includes(name))?.[1],
    ]),
  );
  const folders = Object.values(legacy);
  if (folders.every((folder): folder is string => folder !== undefined)) {
    const [memory, pids, cpu, cpuacct, freezer] = folders as [string, string, string, string, string];
    const writable = await Promise.all(folders.map(canWrite));
    return writable.every(Boolean) ? { version: 1, mounts: { memory, pids, cpu, cpuacct, freezer } } : undefined;
  }
  const unified = mounts.find(([, , type]) => type === 'cgroup2')?.[1];
  if (unified === undefined || !(await enableControllers(unified))) return undefined;
  return { version: 2, mounts: { memory: unified, pids: unified, cpu: unified, cpuacct: unified, freezer: unified } };
};

/** The control groups of boxes, below `codebox-<deployment>`. Every method needs root and throws `unavailable` without it. */
export const createCgroups = ({ version, mounts }: CgroupHierarchy, deployment: string) => {
  const parents = [...new Set(Object.values(mounts))].map((mount) => `${mount}/codebox-${deployment}`);
  const folder = (controller: Controller, id: string) => `${mounts[controller]}/codebox-${deployment}/${id}`;
  const folders = (id: string) => parents.map((parent) => `${parent}/${id}`);

  const whole = (id: string): CgroupFolders => {
    const [memory, cpu, cpuacct, pids] = (['memory', 'cpu', 'cpuacct', 'pids'] as const).map((name) =>
      folder(name, id),
    );
    return version === 2
      ? { memory: undefined, cpu: undefined, cpuacct: undefined, pids: undefined, unified: memory }
      : { memory, cpu, cpuacct, pids, unified: undefined };
  };

  const setFrozen = async (id: string, frozen: boolean, withinMs = settleDeadlineMs): Promise<void> => {
    const base = folder('freezer', id);
    if (version === 2) await writeFile(`${base}/cgroup.freeze`, frozen ? '1' : '0');
    else await writeFile(`${base}/freezer.state`, frozen ? 'FROZEN' : 'THAWED');
    const settled = async () =>
      version === 2
        ? new RegExp(`^frozen ${frozen ? 1 : 0}$`, 'm').test(await readFile(`${base}/cgroup.events`, 'utf8'))
        : (await readFile(`${base}/freezer.state`, 'utf8')).trim() === (frozen ? 'FROZEN' : 'THAWED');
    await until(settled, withinMs, 'The control group could not be frozen or thawed.');
  };

  const members = async (id: string): Promise<number[]> => {
    const text = await readFile(`${folder('pids', id)}/cgroup.procs`, 'utf8').catch(() => '');
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map(Number);
  };

  /**
   * Kills all processes of a group. It is frozen first, so that no process forks between the listing and the kill. The wait for that is short:
   * the first process of an ending pid namespace never freezes, because it waits for the others, which cannot end while they are frozen.
   */
  const kill = async (id: string): Promise<void> => {
    const isEmpty = async () => (await members(id)).length === 0;
    const swept = async () => {
      if (await isEmpty()) return true;
      await setFrozen(id, true, 50).catch(() => undefined);
      for (const pid of await members(id)) signalIfThere(pid, 'SIGKILL');
      await setFrozen(id, false).catch(ignoreMissing);
      return until(isEmpty, 500, '').then(
        () => true,
        // A process has forked nevertheless; sweep again.
        () => false,
      );
    };
    await until(swept, settleDeadlineMs, 'The processes of a box could not be ended.');
  };

  return {
    /** Returns the files to which a process writes 0 to join the group. */
    joinFiles: (id: string): string[] => folders(id).map((path) => `${path}/cgroup.procs`),
    /** Returns the folders that are mounted into the box, from which its server reads how often the limits took effect. */
    visible: (id: string) =>
      version === 2
        ? [{ source: folder('memory', id), target: '/sys/fs/cgroup' }]
        : (['memory', 'pids'] as const).map((name) => ({ source: folder(name, id), target: `/sys/fs/cgroup/${name}` })),
    async make(id: string, limits: Limits): Promise<void> {
      await againWhileMissing(async () => {
        for (const parent of parents) await mkdir(parent, { recursive: true });
        if (version === 2) await enableControllers(parents[0] ?? '');
        for (const path of folders(id)) await mkdir(path, { recursive: version === 1 });
      });
      await writeCgroupLimits(whole(id), limits);
    },
    members,
    freeze: (id: string) => setFrozen(id, true),
    thaw: (id: string) => setFrozen(id, false),
    kill,
    /** Removes the group; all processes must have ended. A group stays busy for a moment after its last process. Idempotent. */
    async remove(id: string): Promise<void> {
      const removed = async () => {
        const rest = await Promise.all(folders(id).map(removeGroup));
        return rest.every(Boolean);
      };
      await until(removed, settleDeadlineMs, 'A control group could not be removed.');
      // The parent stays while it contains other groups.
      for (const parent of parents) await removeGroup(parent);
    },
    async list(): Promise<string[]> {
      // The folder exists only while there are boxes.
      const entries = await readdir(parents[0] ?? '', { withFileTypes: true }).catch(() => []);
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    },
    async limit(id: string, limits: Partial<BindableLimits>): Promise<void> {
      await writeCgroupLimits(whole(id), limits);
      await checkCgroupLimits(whole(id), limits);
    },
    usage: (id: string): Promise<InstanceUsage | undefined> => readCgroupUsage(whole(id)),
  };
};

export type Cgroups = ReturnType<typeof createCgroups>;

const until = async (done: () => Promise<boolean>, withinMs: number, message: string): Promise<void> => {
  const deadline = performance.now() + withinMs;
  while (!(await done())) {
    if (performance.now() > deadline) throw new CodeBoxError('unavailable', message, { retryAfterSeconds: 5 });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

/** Repeats what makes groups while one above them vanishes: the removal of the last other box removes their parent. */
const againWhileMissing = async (make: () => Promise<void>): Promise<void> => {
  for (let left = makeTries; ; left--) {
    try {
      return await make();
    } catch (error) {
      if (left === 1 || !isMissing(error)) throw error;
    }
  }
};

const removeGroup = async (path: string): Promise<boolean> => {
  try {
    await rmdir(path);
    return true;
  } catch (error) {
    return isMissing(error);
  }
};

/** Ignores a missing file: a concurrent end of the same box may have been faster. */
const ignoreMissing = (error: unknown): void => {
  if (!isMissing(error)) throw error;
};

const signalIfThere = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended meanwhile.
  }
};

const canWrite = (path: string): Promise<boolean> =>
  access(path, constants.W_OK).then(
    () => true,
    () => false,
  );

const enableControllers = async (folder: string): Promise<boolean> => {
  try {
    const offered = (await readFile(`${folder}/cgroup.controllers`, 'utf8')).trim().split(' ');
    if (!unifiedControllers.every((name) => offered.includes(name))) return false;
    await writeFile(`${folder}/cgroup.subtree_control`, unifiedControllers.map((name) => `+${name}`).join(' '));
    return true;
  } catch {
    // Not permitted: this process is not root or runs in a container.
    return false;
  }
};
