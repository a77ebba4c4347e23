import { createHash } from 'node:crypto';
import { type Caller, type Client, hasCode } from '#contract';

/** How long the gateway's reply about a key is reused. */
const freshMs = 5000;
const maxKnown = 10_000;

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * Looks up the callers behind API keys; replies of the gateway are cached for a few seconds, its refusals included. The gateway counts wrong
 * keys by address, and all requests of an agent come from one.
 */
export const createCallers = (clientFor: (key: string | undefined) => Client, now: () => number = Date.now) => {
  const known = new Map<string, { until: number; caller: Promise<Caller> }>();
  const idOf = (key: string | undefined): string => sha256(key ?? '');

  return {
    /**
     * Resolves with the caller of a key, or of the agent's own key when none is given. Rejects with `unauthorized` for a key that is revoked
     * or whose tenant was deleted, with `forbidden` while the tenant is suspended.
     */
    find(key: string | undefined): Promise<Caller> {
      const id = idOf(key);
      const found = known.get(id);
      if (found && found.until > now()) return found.caller;
      known.delete(id);
      const caller = clientFor(key).caller();
      known.set(id, { until: now() + freshMs, caller });
      // Failures are not cached, except for keys that the gateway refuses.
      caller.catch((error: unknown) => {
        if (!hasCode(error, 'unauthorized')) known.delete(id);
      });
      const [oldest] = known.keys();
      if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
      return caller;
    },

    /** Drops the cached reply about a key that the gateway has just refused, so that the next `find` caches its refusal. */
    forget(key: string | undefined): void {
      known.delete(idOf(key));
    },
  };
};

export type Callers = ReturnType<typeof createCallers>;
