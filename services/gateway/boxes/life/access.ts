import type { BoxConnection } from '../../box-server/connections.ts';
import type { BoxStore } from '../../store/box/boxes.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Activity } from './activity.ts';
import { isResting } from './box-state.ts';
import type { Directory, ReachableBox } from './directory.ts';

export interface AccessOptions {
  directory: Pick<Directory, 'cached' | 'locate' | 'reach' | 'notReadyError' | 'hasJournals'>;
  boxes: Pick<BoxStore, 'touch'>;
  activity: Pick<Activity, 'note' | 'hold'>;
  /** Wakes a resting box; resolves once it is ready. */
  wake: (ref: BoxRef) => Promise<void>;
}

/** Uses boxes: every use counts as activity and wakes a box that rests. */
export const createAccess = ({ directory, boxes, activity, wake }: AccessOptions) => {
  const reachAwake = async (ref: BoxRef): Promise<ReachableBox> => {
    let found = await directory.locate(ref);
    if (isResting(found.box)) {
      await wake(ref);
      found = await directory.locate(ref);
    }
    const box = directory.reach(found);
    // Any gateway may end a box past its idle time at any moment, so its use is written before it begins.
    if (found.isDue && (await boxes.touch([ref.box])).length === 0) throw await directory.notReadyError(ref);
    return box;
  };

  /** Returns a box that is ready. Throws `gone` for a box that has ended, `conflict` for one that is still being created. */
  const use = async (ref: BoxRef): Promise<ReachableBox> => {
    const found = directory.cached(ref) ?? (await reachAwake(ref));
    activity.note(ref.box);
    return found;
  };

  return {
    use,

    /** Keeps a box in use until the returned function is called. Throws as `use` does. */
    async hold(ref: BoxRef): Promise<() => void> {
      await use(ref);
      return activity.hold(ref.box);
    },

    /** Returns the connection to read past runs from; undefined when their journals are gone, because the box has ended or hibernates. */
    async useJournals(ref: BoxRef): Promise<BoxConnection | undefined> {
      return (await directory.hasJournals(ref)) ? (await use(ref)).server : undefined;
    },
  };
};

export type Access = ReturnType<typeof createAccess>;
