/** How many of each name there are at the moment. */
export interface Tally {
  of(name: string): number;
  /** One more; call what it answers once, when that one is over. */
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
