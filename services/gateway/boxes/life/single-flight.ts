/** Shares work among concurrent callers by key: the first call begins it, and later calls get the same promise until it settles. */
export const createSingleFlight = <T>() => {
  const flights = new Map<string, Promise<T>>();
  return (key: string, work: () => Promise<T>): Promise<T> => {
    const underWay = flights.get(key);
    if (underWay) return underWay;
    const begun = work().finally(() => flights.delete(key));
    flights.set(key, begun);
    return begun;
  };
};
