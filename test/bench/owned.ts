const started = new Set<() => Promise<void>>();

/** Takes over what a stack holds: disposed of once, by whoever has the answer or by `endAll`. */
export const owned = (stack: AsyncDisposableStack): AsyncDisposable => {
  const things = stack.move();
  const dispose = async () => {
    started.delete(dispose);
    await things.disposeAsync();
  };
  started.add(dispose);
  return { [Symbol.asyncDispose]: dispose };
};

/** Ends everything that has been started and not ended, for a run that is broken off. What cannot be ended is left. */
export const endAll = async (): Promise<void> => {
  await Promise.allSettled([...started].map((dispose) => dispose()));
};
