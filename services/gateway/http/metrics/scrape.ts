/** Prometheus waits 10 s for all series together. */
const deadlineMs = 4000;

/** What a series asks of others, or a rejection when it is not there in time: a scrape must not fail for one of them. */
export const withinScrape = <T>(asked: Promise<T>): Promise<T> =>
  new Promise((answered, failed) => {
    const timer = setTimeout(() => failed(new Error('It did not answer within a scrape.')), deadlineMs);
    asked.then(answered, failed).finally(() => clearTimeout(timer));
  });
