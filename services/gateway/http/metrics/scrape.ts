/** Prometheus waits 10 s for all series of a scrape. */
const deadlineMs = 4000;

/** Settles as `value` does, but rejects after a deadline, so that one slow source does not fail the whole scrape. */
export const withinScrape = <T>(value: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error('The value was not there within the deadline of a scrape.')),
      deadlineMs,
    );
    value.then(resolve, reject).finally(() => clearTimeout(timer));
  });
