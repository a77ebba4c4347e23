import { setTimeout as sleep } from 'node:timers/promises';
import { orAborted } from '../../waiting/or-aborted.ts';

export interface Decision {
  approved: boolean;
  reason?: string | undefined;
}

const patienceMs = 3_600_000;
const late: Decision = { approved: false, reason: 'Nobody has approved it in time.' };

/** Calls of one answer that wait for their reader. */
export const createApprovals = () => {
  const waiting = new Map<string, PromiseWithResolvers<Decision>>();

  return {
    /** From now on it can be decided about this call. */
    expect: (call: string): void => void waiting.set(call, Promise.withResolvers()),

    /** Answers false when this call does not wait. */
    decide(call: string, decision: Decision): boolean {
      const asked = waiting.get(call);
      asked?.resolve(decision);
      return asked !== undefined;
    },

    /** Waits for the decision, an hour at most. */
    async wait(call: string, signal: AbortSignal): Promise<Decision> {
      const asked = waiting.get(call)?.promise ?? Promise.resolve(late);
      const over = new AbortController();
      try {
        const patience = sleep(patienceMs, late, { signal: over.signal }).catch(() => late);
        return await orAborted(Promise.race([asked, patience]), signal);
      } finally {
        over.abort();
        waiting.delete(call);
      }
    },
  };
};
