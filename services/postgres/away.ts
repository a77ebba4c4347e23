import { setTimeout as sleep } from 'node:timers/promises';
import { CodeBoxError } from '#contract';

const patienceMs = 30_000;
const betweenTriesMs = 250;

/** SQLSTATE classes and socket errors that mean "the database is unavailable", as opposed to "the query is wrong". */
export const isAway = (error: unknown): boolean => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return (
    /^(08|57P|53|25P03|ECONN|ENOENT|EAI_AGAIN|EPIPE|ETIMEDOUT)/.test(code) ||
    /timeout|terminated|not queryable/i.test(String(error))
  );
};

/** Whether an error was caused by an unavailable database, however deeply it is wrapped. */
const cameOfAway = (error: unknown): boolean => {
  if (error instanceof CodeBoxError && error.code === 'unavailable') return true;
  const isWrapped = error instanceof Error && error.cause !== undefined;
  return isWrapped ? cameOfAway(error.cause) : isAway(error);
};

/**
 * Runs a task that a process needs before it can serve. While the database is unavailable the task is retried, for half
 * a minute in total: a process that ended instead would have to load all its code again. With `stopping`, it is retried
 * until that fires. The task must be safe to repeat.
 */
export const onceThere = async <T>(task: () => Promise<T>, stopping?: AbortSignal): Promise<T> => {
  const until = performance.now() + patienceMs;
  const isOver = () => (stopping ? stopping.aborted : performance.now() > until);
  for (; ; await sleep(betweenTriesMs)) {
    try {
      return await task();
    } catch (error) {
      if (!cameOfAway(error) || isOver()) throw error;
    }
  }
};
