import { createHash } from 'node:crypto';
import { type Caller, type Client, hasCode } from '#contract';

/** So long the gateway is not asked again whose a key is. */
const freshMs = 5000;
const maxKnown = 10_000;

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * Asks the gateway whose a key is, or the agent's own when there is none; each once in a while. Rejects with `unauthorized` for one
 * that is revoked or whose tenant is gone, with `forbidden` while that is suspended.
 */
export const createCallers = (clientFor: (key: string | undefined) => Client, now: () => number = Date.now) => {
  const known = new Map<string, { until: number; caller: Promise<Caller> }>();
  return (key: string | undefined): Promise<Caller> => {
    const id = sha256(key ?? '');
    const found = known.get(id);
    if (found && found.until > now()) return found.caller;
    known.delete(id);
    const caller = clientFor(key).caller();
    known.set(id, { until: now() + freshMs, caller });
    // What could not be asked is asked again.
    caller.catch((error: unknown) => {
      if (!hasCode(error, 'unauthorized')) known.delete(id);
    });
    const [oldest] = known.keys();
    if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
    return caller;
  };
};

export type Callers = ReturnType<typeof createCallers>;
