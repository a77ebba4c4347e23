import type { BoxCause } from '#contract';
import type { Why, WhyCode } from '../../drivers/driver.ts';
import { InstanceFailed } from '../../drivers/instance-failed.ts';

const lost: BoxCause = { code: 'instance_lost', detail: 'The instance of the box ended unexpectedly.' };
const notStarted: BoxCause = { code: 'start_failed', detail: 'The box could not be started.' };

/** What callers are told of an instance that does not run. */
const causes: Record<WhyCode, BoxCause | undefined> = {
  exit: undefined,
  oom: { code: 'memory_limit', detail: 'The box used more memory than its limit, and was ended for it.' },
  evicted: { code: 'evicted', detail: 'The host of the box ran out of room and ended it.' },
  preempted: { code: 'preempted', detail: 'The host of the box ended it for a more important one.' },
  node_lost: { code: 'node_lost', detail: 'The host of the box is gone.' },
  unschedulable: { code: 'unschedulable', detail: 'No host had room for the box.' },
  image: { code: 'image_unavailable', detail: 'The image of the box could not be had.' },
};

/** Why a box is lost whose instance does not run any more; without `why` nothing more is known. */
export const causeOf = (why: Why | undefined): BoxCause => (why && causes[why.code]) ?? lost;

/** Why a box failed that could not be started. */
export const causeOfFailure = (error: unknown): BoxCause =>
  (error instanceof InstanceFailed ? causes[error.why.code] : undefined) ?? notStarted;
