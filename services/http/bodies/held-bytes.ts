import { getHeapStatistics } from 'node:v8';
import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import { createTally } from '../../waiting/tally.ts';
import type { HttpEnv } from '../env.ts';

/** The bytes of bodies and messages that may be in memory at once. */
export interface HeldBounds {
  most: number;
  mostOfOne: number;
}

/** Besides its bytes, a body takes up to twice as much of the heap as text, and once more while the text is passed on. */
const shareOfHeap = 0.25;
const shareOfOne = 0.5;
const retryAfterSeconds = 5;

const defaultBounds = (): HeldBounds => {
  const most = Math.floor(getHeapStatistics().heap_size_limit * shareOfHeap);
  return { most, mostOfOne: most * shareOfOne };
};

/**
 * Middleware that bounds the bytes of the bodies and of the messages of WebSockets in memory: of all callers, and of each one. The bytes of a
 * body count from their arrival until its handler has ended and its response is sent, because a run keeps its request. A body that exceeds a
 * bound is refused: if it waited, bodies could wait for each other. `callerOf` is asked when something is read; undefined stands for all
 * callers that are not known.
 */
export const boundHeldBytes = <E extends HttpEnv>(
  callerOf: (c: Context<E>) => string | undefined,
  { most, mostOfOne }: HeldBounds = defaultBounds(),
): MiddlewareHandler<E> => {
  const held = createTally();
  let all = 0;
  const exceedsShare = (caller: string, more: number) => held.of(caller) + more > mostOfOne;
  const exceedsAll = (more: number) => all + more > most;
  const change = (caller: string, by: number) => {
    all += by;
    held.change(caller, by);
  };

  return async (c, next) => {
    let caller = '';
    let bytes = 0;
    let messageBytes = 0;
    /** Returns the name of the caller, who may send a key later than the first bytes. */
    const name = () => {
      const now = callerOf(c) ?? caller;
      if (now !== caller) {
        held.change(caller, -(bytes + messageBytes));
        held.change(now, bytes + messageBytes);
        caller = now;
      }
      return caller;
    };
    let isOver = false;
    c.set('holdBody', (more: number) => {
      // A body that is late may still come after its response.
      if (isOver) throw new CodeBoxError('timeout', 'The request is over.');
      if (exceedsShare(name(), more)) throw tooMany(mostOfOne);
      if (exceedsAll(more)) throw noRoom();
      change(name(), more);
      bytes += more;
    });
    c.set('messageRoom', {
      take(more: number) {
        if (exceedsShare(name(), more) || exceedsAll(more)) return false;
        change(name(), more);
        messageBytes += more;
        return true;
      },
      give(less: number) {
        change(name(), -less);
        messageBytes -= less;
      },
    });
    const release = () => {
      isOver = true;
      change(name(), -bytes);
      bytes = 0;
    };
    try {
      await next();
    } finally {
      const { outgoing } = c.env ?? {};
      if (bytes > 0 && outgoing && !outgoing.destroyed) outgoing.once('close', release);
      else release();
    }
  };
};

const tooMany = (mostOfOne: number) =>
  new CodeBoxError(
    'too_many_requests',
    `With this one, the bodies of your open requests and the messages of your WebSockets would exceed ${Math.floor(mostOfOne / 1024 / 1024)} MiB. Wait until some have ended; uploaded files do not count.`,
    { retryAfterSeconds },
  );

const noRoom = () =>
  new CodeBoxError(
    'unavailable',
    'The bodies of open requests and the messages of WebSockets leave no memory for this one.',
    { retryAfterSeconds },
  );
