import { CodeBoxError } from '#contract';
import type { BoxRow } from '../../store/box/boxes.ts';

/** Returns whether a box has to be woken before it can be used, or is about to rest. */
export const isResting = ({ state, task }: Pick<BoxRow, 'state' | 'task'>): boolean =>
  state === 'paused' || state === 'hibernated' || (state === 'ready' && task !== null && task !== 'checkpoint');

/** Throws `gone` for a box that has ended, `conflict` for one that is still being created. */
export const checkLiving = (box: BoxRow): void => {
  if (box.state === 'creating')
    throw new CodeBoxError('conflict', 'The box is still being created.', {
      reason: 'box_changing',
      retryAfterSeconds: 1,
    });
  if (box.endedAt) throw goneError(box);
};

export const goneError = (box: BoxRow) => new CodeBoxError('gone', box.cause?.detail ?? 'The box is gone.');
