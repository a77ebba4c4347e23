import { once } from 'node:events';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { createGate, type Gate } from '../../../waiting/gate.ts';
import type { Env } from '../env.ts';

/** Of one box, of tens of megabytes each. */
const atOnce = 4;
const waitMs = 30_000;

/**
 * Bounds the answers that have all that something has put out: of each box a few at a time are read and sent, those that nobody
 * takes included. The others wait in order; `too_many_requests` when that takes too long.
 */
export const createWholeAnswers = () => {
  const gates = new Map<string, { gate: Gate; asked: number }>();

  return async (c: Context<Env>, box: string, make: () => Promise<Response>): Promise<Response> => {
    const { promise: answer, resolve, reject } = Promise.withResolvers<Response>();
    const name = `${c.get('tenant')} ${box}`;
    const entry = gates.get(name) ?? { gate: createGate(atOnce), asked: 0 };
    gates.set(name, entry);
    entry.asked += 1;
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(notTaken()), waitMs);
    void entry
      .gate(patience.signal, async () => {
        clearTimeout(timer);
        resolve(await make());
        await sent(c);
      })
      .catch(reject)
      .finally(() => {
        clearTimeout(timer);
        entry.asked -= 1;
        if (entry.asked === 0) gates.delete(name);
      });
    return await answer;
  };
};

const notTaken = () =>
  new CodeBoxError('too_many_requests', 'Other answers of this box are not taken.', { retryAfterSeconds: 1 });

/** Until the connection has done with the answer. */
const sent = async (c: Context<Env>): Promise<void> => {
  const { outgoing } = c.env ?? {};
  if (outgoing && !outgoing.destroyed) await once(outgoing, 'close');
};
