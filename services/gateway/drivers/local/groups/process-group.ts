import { CodeBoxError } from '#contract';
import type { InstanceUsage } from '../../driver.ts';
import type { InstanceFolders } from '../instances/instance-folder.ts';
import { isAlive, namespaceMembers, sumUsage } from '../instances/processes.ts';
import type { Groups } from './groups.ts';

const killDeadlineMs = 15_000;

/**
 * Manages the boxes of an ordinary user without control groups. The first process of a sandbox is PID 1 of its pid namespace, so killing it
 * ends all processes. Nothing is limited here, and the peak of memory is unknown.
 */
export const createProcessGroups = (folders: InstanceFolders): Groups => {
  const init = async (id: string): Promise<number | undefined> => {
    const first = await folders.init(id);
    return first !== undefined && (await isAlive(first)) ? first.pid : undefined;
  };
  const members = async (id: string): Promise<number[]> => {
    const pid = await init(id);
    return pid === undefined ? [] : namespaceMembers(pid);
  };
  const running = async (id: string): Promise<boolean> => {
    const launcher = await folders.launcher(id);
    return (launcher !== undefined && (await isAlive(launcher))) || (await init(id)) !== undefined;
  };
  const signalAll = async (id: string, signal: NodeJS.Signals): Promise<void> => {
    for (const pid of await members(id)) signalIfThere(pid, signal);
  };

  return {
    make: async () => {},
    limit: async () => {},
    joinFiles: () => [],
    visible: () => [],
    running,
    freeze: (id) => signalAll(id, 'SIGSTOP'),
    thaw: (id) => signalAll(id, 'SIGCONT'),
    async kill(id) {
      const deadline = performance.now() + killDeadlineMs;
      while (await running(id)) {
        const pid = (await init(id)) ?? (await folders.launcher(id))?.pid;
        if (pid !== undefined) signalIfThere(pid, 'SIGKILL');
        if (performance.now() > deadline)
          throw new CodeBoxError('unavailable', 'The processes of a box could not be ended.');
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
    remove: async () => {},
    list: async () => [],
    usage: async (id): Promise<InstanceUsage> => ({ at: new Date(), ...(await sumUsage(await members(id))) }),
  };
};

const signalIfThere = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended meanwhile.
  }
};
