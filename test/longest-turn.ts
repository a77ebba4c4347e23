/** CPU time of this thread in milliseconds. */
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/**
 * Measures the longest turn of the event loop during `work`, in milliseconds of CPU time, so that the load of the machine does not
 * count. `work` is called up to three times, until a call takes less than `enoughMs`, and the best call counts. Errors of `work` are
 * ignored.
 */
export const longestTurn = async (work: () => unknown, { enoughMs = 0 } = {}): Promise<number> => {
  let best = Number.POSITIVE_INFINITY;
  for (let times = 0; times < 3 && best >= enoughMs; times++) best = Math.min(best, await once(work));
  return best;
};

const once = async (work: () => unknown): Promise<number> => {
  let longest = 0;
  let since = cpuMs();
  let next: NodeJS.Immediate;
  const look = () => {
    const now = cpuMs();
    longest = Math.max(longest, now - since);
    since = now;
    next = setImmediate(look);
  };
  next = setImmediate(look);
  since = cpuMs();
  try {
    await work();
  } catch {
    // Refused input has been read too.
  }
  longest = Math.max(longest, cpuMs() - since);
  clearImmediate(next);
  return longest;
};
