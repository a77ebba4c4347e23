import { CodeBoxError } from '#contract';
import type { BoxRow } from '../../store/box/boxes.ts';

/** Returns whether a ready box can be used, whatever task is under way. */
export const isUsable = ({ task }: Pick<BoxRow, 'task'>): boolean =>
  task === null || task === 'checkpoint' || task === 'connect';

/** Returns whether a box has to be woken before it can be used, or is about to rest. */
export const isResting = (box: Pick<BoxRow, 'state' | 'task'>): boolean =>
  box.state === 'paused' || box.state === 'hibernated' || (box.state === 'ready' && !isUsable(box));

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
