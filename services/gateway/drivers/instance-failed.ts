import { CodeBoxError } from '#contract';
import type { Why } from './driver.ts';

/** The error for an instance that will not run, with the reason: `unavailable` to callers. */
export class InstanceFailed extends CodeBoxError {
  readonly why: Why;

  constructor(why: Why, cause?: unknown) {
    super('unavailable', messages[why.code], {
      cause: cause ?? new Error(`${why.code}: ${why.detail}`),
      ...(why.code === 'refused' ? { reason: 'box_refused' } : { retryAfterSeconds: why.retryAfterSeconds ?? 5 }),
    });
    this.why = why;
  }
}

const messages: Record<Why['code'], string> = {
  unschedulable: 'No host has capacity for the box.',
  image: 'The image of the template is missing or cannot be pulled. The operator has to provide it.',
  oom: 'The box exceeded its memory limit while it started.',
  evicted: 'The host evicted the box because it ran out of a resource.',
  preempted: 'The host ended the box in favour of one with higher priority.',
  node_lost: 'The host of the box is lost.',
  exit: 'The box exited while it started.',
  refused: 'Such a box cannot be created here: the cluster refuses it.',
};
