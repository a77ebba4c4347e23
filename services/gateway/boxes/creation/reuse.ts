import { setTimeout as sleep } from 'node:timers/promises';
import { type BoxCause, CodeBoxError, hasCode } from '#contract';
import { type BoxRow, type BoxStore, expired } from '../../store/box/boxes.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import { goneError, isResting } from '../life/box-state.ts';
import type { Directory } from '../life/directory.ts';
import { createSingleFlight } from '../life/single-flight.ts';

export interface ReuseOptions {
  boxes: Pick<BoxStore, 'find' | 'findReusable' | 'touch'>;
  directory: Pick<Directory, 'checkHere' | 'reach'>;
  activity: Pick<Activity, 'note'>;
  /** Wakes a resting box; resolves once it is ready. */
  wake: (ref: BoxRef) => Promise<void>;
  end: (boxId: string, state: 'deleting' | 'failed', cause: BoxCause) => Promise<unknown>;
  /** How long a box that another request creates may take to become ready. */
  readyMs: number;
}

const [firstPollMs, lastPollMs] = [50, 500];

/** Reuses the box of a user: the newest, or the one with a name. */
export const createReuse = ({ boxes, directory, activity, wake, end, readyMs }: ReuseOptions) => {
  const becomingReady = createSingleFlight<BoxRow>();

  /** Waits for a box that another request creates. Throws `unavailable` when that request fails. */
  const waitUntilReady = async (ref: BoxRef): Promise<BoxRow> => {
    const deadline = performance.now() + readyMs;
    for (let pauseMs = firstPollMs; ; pauseMs = Math.min(pauseMs * 1.5, lastPollMs)) {
      const found = await boxes.find(ref.tenant, ref.box);
      if (found) directory.checkHere(found);
      const row = found?.box;
      if (row?.state === 'ready') return row;
      // The row of a box that was refused for lack of room is removed.
      if (!row || row.state === 'failed')
        throw new CodeBoxError('unavailable', "The user's box could not be made.", { retryAfterSeconds: 1 });
      if (row.state !== 'creating') throw goneError(row);
      if (performance.now() > deadline) throw new CodeBoxError('timeout', 'The box did not become ready in time.');
      await sleep(pauseMs);
    }
  };

  /** Resolves with the box, which is ready and in use; with undefined when the user has none, or it ended or went to rest meanwhile. */
  return async (tenantId: string, userId: string, name?: string): Promise<BoxRow | undefined> => {
    const found = await boxes.findReusable(tenantId, userId, name);
    if (!found) return undefined;
    const { id } = found.box;
    if (found.isExpired) {
      await end(id, 'deleting', expired);
      return undefined;
    }
    const ref = refOf(found.box);
    try {
      if (found.box.state === 'ready' && !found.isDue) {
        activity.note(id);
        return directory.reach(found).box;
      }
      if (isResting(found.box)) await wake(ref);
      const box = await becomingReady(`${ref.tenant}/${ref.box}`, () => waitUntilReady(ref));
      return (await boxes.touch([id])).length > 0 ? box : undefined;
    } catch (error) {
      if (hasCode(error, 'gone')) return undefined;
      throw error;
    }
  };
};
