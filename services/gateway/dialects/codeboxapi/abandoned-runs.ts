import type { Output } from './outputs.ts';

/** How long an output is kept after the end of its run. */
const keptMs = 10_000;
/** The longest output that is kept then, in characters. */
const longest = 1024 * 1024;
const most = 100;

/** The outputs of runs whose callers have left, for callers who repeat them. The key of a run begins with that of its box. */
export const createAbandonedRuns = () => {
  const outputs = new Map<string, Promise<Output>>();

  const forget = (key: string, output: Promise<Output>): void => {
    if (outputs.get(key) === output) outputs.delete(key);
  };

  return {
    forget,
    find: (key: string): Promise<Output> | undefined => outputs.get(key),

    /** Keeps an output while its run goes on, and for 10 s after that unless it is long or an error of the service. */
    keep(key: string, output: Promise<Output>): void {
      outputs.set(key, output);
      const [oldest] = outputs.size > most ? outputs.keys() : [];
      if (oldest !== undefined) outputs.delete(oldest);
      const forgetNow = () => forget(key, output);
      output.then(({ content }) => {
        if (content.length > longest) forgetNow();
        else setTimeout(forgetNow, keptMs).unref();
      }, forgetNow);
    },

    /** Forgets the outputs of a box, whose code has to run again. */
    forgetBox(box: string): void {
      for (const key of outputs.keys()) if (key.startsWith(box)) outputs.delete(key);
    },
  };
};
