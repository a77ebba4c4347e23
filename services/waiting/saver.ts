import { setTimeout as sleep } from 'node:timers/promises';
import type { Background } from './background.ts';

export interface SaverOptions {
  background: Pick<Background, 'oneAtATime' | 'signal'>;
  /** What is done, for the report of a failure. */
  what: string;
  everyMs: number;
  /** Saves the state of this moment. */
  save: () => Promise<unknown>;
}

/**
 * Returns a function to call after each change of a state, which is then saved `everyMs` later, one write at a time. A change during a write
 * is saved by another write.
 */
export const createSaver = ({ background, what, everyMs, save }: SaverOptions): (() => void) => {
  let isChanged = false;
  const saveAll = background.oneAtATime(what, async () => {
    while (isChanged) {
      await sleep(everyMs, undefined, { signal: background.signal });
      isChanged = false;
      await save();
    }
  });
  return () => {
    isChanged = true;
    saveAll();
  };
};
