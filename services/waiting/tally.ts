/** Counts current items by name. */
export interface Tally {
  of(name: string): number;
  /** Adds one; call the returned function once when it is over. */
  add(name: string): () => void;
}

export const createTally = (): Tally => {
  const counts = new Map<string, number>();
  const of = (name: string) => counts.get(name) ?? 0;
  return {
    of,
    add(name) {
      counts.set(name, of(name) + 1);
      return () => {
        const left = of(name) - 1;
        if (left > 0) counts.set(name, left);
        else counts.delete(name);
      };
    },
  };
};
