import { setTimeout as sleep } from 'node:timers/promises';
import { orAborted } from '../../../waiting/or-aborted.ts';

export interface Decision {
  approved: boolean;
  reason?: string | undefined;
}

const patienceMs = 3_600_000;
const late: Decision = { approved: false, reason: 'Nobody approved it in time.' };

/** The calls of one answer that wait for approval. */
export const createApprovals = () => {
  const waiting = new Map<string, PromiseWithResolvers<Decision>>();

  return {
    /** Registers the call, so that it can be decided from now on. */
    expect: (call: string): void => void waiting.set(call, Promise.withResolvers()),

    /** Returns false when this call does not wait. */
    decide(call: string, decision: Decision): boolean {
      const pending = waiting.get(call);
      pending?.resolve(decision);
      return pending !== undefined;
    },

    /** Waits for the decision for at most one hour. */
    async wait(call: string, signal: AbortSignal): Promise<Decision> {
      const pending = waiting.get(call)?.promise ?? Promise.resolve(late);
      const over = new AbortController();
      try {
        const patience = sleep(patienceMs, late, { signal: over.signal }).catch(() => late);
        return await orAborted(Promise.race([pending, patience]), signal);
      } finally {
        over.abort();
        waiting.delete(call);
      }
    },
  };
};
