import { CodeBoxError } from '#contract';
import type { Why } from './driver.ts';

/** An instance that will not run, and why: `unavailable` to callers. */
export class InstanceFailed extends CodeBoxError {
  readonly why: Why;

  constructor(why: Why, cause?: unknown) {
    super('unavailable', messages[why.code], {
      cause: cause ?? new Error(`${why.code}: ${why.detail}`),
      retryAfterSeconds: 5,
    });
    this.why = why;
  }
}

const messages: Record<Why['code'], string> = {
  unschedulable: 'No host has room for the box.',
  image: 'The image of the box cannot be had.',
  oom: 'The box used more memory than it has while it started.',
  evicted: 'The host of the box ended it for want of room.',
  preempted: 'The host of the box ended it for a more important one.',
  node_lost: 'The host of the box is gone.',
  exit: 'The box ended while it started.',
};
