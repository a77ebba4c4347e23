/** Failed authentications that an address may make in a window. */
const most = 60;
const windowMs = 60_000;
const maxAddresses = 10_000;

/** Counts failed authentications by address, in bounded memory: past that many addresses the oldest is forgotten. */
export const createFailures = (now: () => number = () => performance.now()) => {
  const counts = new Map<string, { count: number; until: number }>();

  const current = (address: string) => {
    const found = counts.get(address);
    if (found && found.until > now()) return found;
    counts.delete(address);
    return undefined;
  };

  return {
    /** For how long an address has to wait, in seconds; undefined when it need not. */
    waitSeconds(address: string): number | undefined {
      const found = current(address);
      return found && found.count >= most ? Math.ceil((found.until - now()) / 1000) : undefined;
    },

    note(address: string): void {
      const found = current(address);
      if (found) {
        found.count += 1;
        return;
      }
      // A map keeps the order of insertion.
      const [oldest] = counts.size >= maxAddresses ? counts.keys() : [];
      if (oldest !== undefined) counts.delete(oldest);
      counts.set(address, { count: 1, until: now() + windowMs });
    },
  };
};

export type Failures = ReturnType<typeof createFailures>;
