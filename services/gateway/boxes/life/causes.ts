import type { BoxCause } from '#contract';
import type { Why, WhyCode } from '../../drivers/driver.ts';
import { InstanceFailed } from '../../drivers/instance-failed.ts';

const lost: BoxCause = { code: 'instance_lost', detail: 'The instance of the box ended unexpectedly.' };
const notStarted: BoxCause = { code: 'start_failed', detail: 'The box could not be started.' };

/** The public cause for each reason why an instance does not run. */
const causes: Record<WhyCode, BoxCause | undefined> = {
  exit: undefined,
  oom: { code: 'memory_limit', detail: 'The box exceeded its memory limit and was ended.' },
  evicted: { code: 'evicted', detail: 'The host of the box ran out of a resource and ended it.' },
  preempted: { code: 'preempted', detail: 'The host of the box ended it in favour of one with higher priority.' },
  node_lost: { code: 'node_lost', detail: 'The host of the box is permanently lost.' },
  unschedulable: { code: 'unschedulable', detail: 'No host had capacity for the box.' },
  refused: { code: 'start_failed', detail: 'The cluster refuses to create such a box.' },
  gpu: { code: 'gpu_unavailable', detail: 'The host could not give the box a GPU.' },
  volume: { code: 'volume_missing', detail: 'A volume of the box is missing.' },
  image: { code: 'image_unavailable', detail: 'The image of the box is missing or could not be pulled.' },
};

/** Returns why a box is lost whose instance ended; `why` is the reason of the driver, if it has one. */
export const causeOf = (why: Why | undefined): BoxCause => (why && causes[why.code]) ?? lost;

/** Returns why a box failed that could not be started. */
export const causeOfFailure = (error: unknown): BoxCause =>
  (error instanceof InstanceFailed ? causes[error.why.code] : undefined) ?? notStarted;
