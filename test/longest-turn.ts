/** CPU time of this thread in milliseconds. */
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/**
 * The most CPU time, in milliseconds, for which `work` holds up everything else: of its turns of the event loop the longest. What the
 * machine does beside does not count. It is called up to three times, until it takes less than `enoughMs`, and the best of them counts;
 * what it throws is ignored.
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
    // What is refused has been read too.
  }
  longest = Math.max(longest, cpuMs() - since);
  clearImmediate(next);
  return longest;
};
