import { once } from 'node:events';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { createGate, type Gate } from '../../../waiting/gate.ts';
import type { Env } from '../env.ts';

/** Large responses of one box at once; each may have tens of megabytes. */
const maxConcurrent = 4;
const waitMs = 30_000;

/**
 * Bounds the responses that carry the whole output of a run: a few for each box are read and sent at a time, including those that
 * their client does not read. The others wait in order and throw `too_many_requests` when that takes too long.
 */
export const createLargeResponses = () => {
  const gates = new Map<string, { gate: Gate; users: number }>();

  return async (c: Context<Env>, box: string, make: () => Promise<Response>): Promise<Response> => {
    const { promise: response, resolve, reject } = Promise.withResolvers<Response>();
    const name = `${c.get('tenant')} ${box}`;
    const entry = gates.get(name) ?? { gate: createGate(maxConcurrent), users: 0 };
    gates.set(name, entry);
    entry.users += 1;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(tooMany()), waitMs);
    void entry
      .gate(deadline.signal, async () => {
        clearTimeout(timer);
        resolve(await make());
        await sent(c);
      })
      .catch(reject)
      .finally(() => {
        clearTimeout(timer);
        entry.users -= 1;
        if (entry.users === 0) gates.delete(name);
      });
    return await response;
  };
};

export type SendLarge = ReturnType<typeof createLargeResponses>;

const tooMany = () =>
  new CodeBoxError(
    'too_many_requests',
    'Too many large responses are still being sent. Read them to their end, then try again.',
    { retryAfterSeconds: 1 },
  );

/** Resolves when the connection has closed or finished the response. */
const sent = async (c: Context<Env>): Promise<void> => {
  const { outgoing } = c.env ?? {};
  if (outgoing && !outgoing.destroyed) await once(outgoing, 'close');
};
