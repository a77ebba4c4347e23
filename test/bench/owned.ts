const started = new Set<() => Promise<void>>();

/** Moves the resources of a stack into an object that disposes of them once; `endAll` disposes of them too. */
export const owned = (stack: AsyncDisposableStack): AsyncDisposable => {
  const resources = stack.move();
  const dispose = async () => {
    started.delete(dispose);
    await resources.disposeAsync();
  };
  started.add(dispose);
  return { [Symbol.asyncDispose]: dispose };
};

/** Disposes of all remaining resources when a run is aborted. Ignores errors. */
export const endAll = async (): Promise<void> => {
  await Promise.allSettled([...started].map((dispose) => dispose()));
};

let isStopping = false;

/** Resolves at once, but never after the first signal: nothing else may be started while this process ends. */
export const unlessEnding = (): Promise<void> => (isStopping ? new Promise(() => {}) : Promise.resolve());

/** Runs `end` at the first SIGINT or SIGTERM, then exits. */
export const endOnSignal = (end: () => Promise<void>): void => {
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    // A terminal sends Ctrl-C to the whole process group and the parent forwards it, so the signal arrives twice.
    process.on(name, () => {
      if (isStopping) return;
      isStopping = true;
      void end().finally(() => process.exit(1));
    });
  }
};
