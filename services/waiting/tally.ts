/** Counts current items by name. */
export interface Tally {
  of(name: string): number;
  /** Adds one; call the returned function once when it is over. */
  add(name: string): () => void;
  /** Adds so many, or takes them away. */
  change(name: string, by: number): void;
}

export const createTally = (): Tally => {
  const counts = new Map<string, number>();
  const of = (name: string) => counts.get(name) ?? 0;
  const change = (name: string, by: number) => {
    const left = of(name) + by;
    if (left > 0) counts.set(name, left);
    else counts.delete(name);
  };
  return {
    of,
    change,
    add(name) {
      change(name, 1);
      return () => change(name, -1);
    },
  };
};
