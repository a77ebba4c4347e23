import { CodeBoxError, type ErrorReason } from '#contract';
import type { Why } from './driver.ts';

/** The error for an instance that will not run, with the reason: `unavailable` to callers. */
export class InstanceFailed extends CodeBoxError {
  readonly why: Why;

  constructor(why: Why, cause?: unknown) {
    const reason = lastingReasons[why.code];
    super('unavailable', messages[why.code], {
      cause: cause ?? new Error(`${why.code}: ${why.detail}`),
      ...(reason ? { reason } : { retryAfterSeconds: why.retryAfterSeconds ?? 5 }),
    });
    this.why = why;
  }
}

/** Only the operator can mend these, so a retry does not help. */
const lastingReasons: Partial<Record<Why['code'], ErrorReason>> = {
  image: 'image_unavailable',
  refused: 'box_refused',
  gpu: 'gpu_unavailable',
  volume: 'volume_missing',
};

const messages: Record<Why['code'], string> = {
  unschedulable: 'No host has capacity, or the GPUs that it needs, for the box.',
  image: 'The image of the template is missing or cannot be pulled. The operator has to provide it.',
  oom: 'The box exceeded its memory limit while it started.',
  evicted: 'The host evicted the box because it ran out of a resource.',
  preempted: 'The host ended the box in favour of one with higher priority.',
  node_lost: 'The host of the box is lost.',
  exit: 'The box exited while it started.',
  gpu: 'The host cannot give boxes of the template a GPU. The operator has to set it up.',
  refused: 'Such a box cannot be created here: the cluster refuses it.',
  volume: 'A volume of the box is missing. The operator may have lost it.',
};
