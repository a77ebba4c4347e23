/** The failed authentications that an address may make in a window. */
const maxFailures = 60;
const windowMs = 60_000;
const maxAddresses = 10_000;

/** Counts failed authentications by address. Memory is bounded: above `maxAddresses` the oldest address is forgotten. */
export const createFailures = (now: () => number = () => performance.now()) => {
  const counts = new Map<string, { count: number; until: number }>();

  const current = (address: string) => {
    const found = counts.get(address);
    if (found && found.until > now()) return found;
    counts.delete(address);
    return undefined;
  };

  return {
    /** Returns the seconds that an address has to wait, or undefined when it need not wait. */
    waitSeconds(address: string): number | undefined {
      const found = current(address);
      return found && found.count >= maxFailures ? Math.ceil((found.until - now()) / 1000) : undefined;
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
