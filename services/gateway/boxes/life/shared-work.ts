/** Work that many want at once is begun by the first of them and is for all who come until it is done; by key. */
export const createSharedWork = <T>() => {
  const underway = new Map<string, Promise<T>>();
  return (key: string, work: () => Promise<T>): Promise<T> => {
    const known = underway.get(key);
    if (known) return known;
    const begun = work().finally(() => underway.delete(key));
    underway.set(key, begun);
    return begun;
  };
};
