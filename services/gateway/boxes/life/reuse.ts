import { setTimeout as sleep } from 'node:timers/promises';
import { type BoxCause, CodeBoxError, hasCode } from '#contract';
import { type BoxRow, type BoxStore, expired } from '../../store/box/boxes.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import { type Access, goneError, isResting } from './access.ts';
import { createSharedWork } from './shared-work.ts';

export interface ReuseOptions {
  boxes: Pick<BoxStore, 'find' | 'findReusable' | 'touch'>;
  /** Throws `unavailable` for a box that lives at another site. */
  checkHere: Access['checkHere'];
  /** Brings a resting box back; returns when it is ready. */
  wake: (ref: BoxRef) => Promise<void>;
  end: (boxId: string, state: 'deleting' | 'failed', cause: BoxCause) => Promise<unknown>;
  /** How long a box that another request makes may take to be ready. */
  readyMs: number;
}

const [firstLookMs, lastLookMs] = [50, 500];

/** Has the box that a user has already. */
export const createReuse = ({ boxes, checkHere, wake, end, readyMs }: ReuseOptions) => {
  const becomingReady = createSharedWork<BoxRow>();

  /** Waits for a box that another request makes; `unavailable` when that comes to nothing. */
  const waitUntilReady = async (ref: BoxRef): Promise<BoxRow> => {
    const deadline = performance.now() + readyMs;
    for (let pauseMs = firstLookMs; ; pauseMs = Math.min(pauseMs * 1.5, lastLookMs)) {
      const found = await boxes.find(ref.tenant, ref.box);
      if (found) checkHere(found);
      const row = found?.box;
      if (row?.state === 'ready') return row;
      // Refused for lack of room, it is not there any more.
      if (!row || row.state === 'failed')
        throw new CodeBoxError('unavailable', "The user's box could not be made.", { retryAfterSeconds: 1 });
      if (row.state !== 'creating') throw goneError(row);
      if (performance.now() > deadline) throw new CodeBoxError('timeout', 'The box did not become ready in time.');
      await sleep(pauseMs);
    }
  };

  /** The box, ready and just used; undefined when the user has none, or it has ended or been put aside meanwhile. */
  return async (tenantId: string, userId: string): Promise<BoxRow | undefined> => {
    const found = await boxes.findReusable(tenantId, userId);
    if (!found) return undefined;
    const { id } = found.box;
    if (found.isExpired) {
      await end(id, 'deleting', expired);
      return undefined;
    }
    const ref = refOf(found.box);
    try {
      if (isResting(found.box)) await wake(ref);
      const box = await becomingReady(`${ref.tenant}/${ref.box}`, () => waitUntilReady(ref));
      return (await boxes.touch([id])).length > 0 ? box : undefined;
    } catch (error) {
      if (hasCode(error, 'gone')) return undefined;
      throw error;
    }
  };
};
