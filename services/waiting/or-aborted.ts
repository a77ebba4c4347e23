/**
 * Stops waiting for work that cannot be aborted itself, with the reason of the signal; the result of the work is
 * ignored.
 */
export const orAborted = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((done, failed) => {
    const giveUp = () => failed(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    work.then(done, failed).finally(() => signal.removeEventListener('abort', giveUp));
  });
