import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import { type Env, noteBox } from '../../http/env.ts';
import { toBoxId } from './address.ts';
import { isPaused, pausesItself } from './control/sandbox.ts';
import { addressOf } from './data.ts';

/** Finds the running sandbox that a request names. Throws `gone` for one that does not run. */
export const createRunning = (directory: Pick<RouteParts['directory'], 'find' | 'cached'>, domain: string) => {
  const named = (c: Context<Env>): BoxRef => {
    const ref = { tenant: c.get('tenant'), box: toBoxId(addressOf(c, domain).sandbox) ?? '' };
    noteBox(c, ref.box);
    return ref;
  };
  const read = async (ref: BoxRef) => {
    const row = await directory.find(ref).catch(() => undefined);
    // The sweep that ends boxes comes some seconds after their time.
    const hasEnded = row === undefined || row.endedAt !== null || row.expiresAt.getTime() <= Date.now();
    if (hasEnded || (isPaused(row) && !pausesItself(row))) throw new CodeBoxError('gone', 'The sandbox was not found');
    return row;
  };

  return {
    /** Returns the box of the request. A sandbox that has paused itself counts as running, because its use resumes it. */
    async of(c: Context<Env>): Promise<BoxRef> {
      const ref = named(c);
      if (!directory.cached(ref)) await read(ref);
      return ref;
    },

    /** Throws unless the sandbox of the request runs now. The check does not count as use. */
    async check(c: Context<Env>): Promise<void> {
      if (isPaused(await read(named(c)))) throw new CodeBoxError('gone', 'The sandbox was not found');
    },
  };
};

export type Running = ReturnType<typeof createRunning>;
