/** Gives up waiting for work that cannot be broken off itself, with the reason of the signal; the work goes on unheard. */
export const orAborted = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((done, failed) => {
    const giveUp = () => failed(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    work.then(done, failed).finally(() => signal.removeEventListener('abort', giveUp));
  });
