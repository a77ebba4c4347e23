import type { V1ContainerStatus, V1Pod, V1PodCondition } from '@kubernetes/client-node';
import type { Instance, Why, WhyCode } from '../../driver.ts';
import type { ScaleUp } from '../api/scale-up.ts';

const condition = (pod: V1Pod, type: string): V1PodCondition | undefined =>
  pod.status?.conditions?.find((one) => one.type === type);

const boxStatus = (pod: V1Pod): V1ContainerStatus | undefined => pod.status?.containerStatuses?.[0];

/** Nodes repeat a pull that failed once (`ErrImagePull`), after a pause that grows (`ImagePullBackOff`). */
const imageReasons = new Set([
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'ImageInspectError',
  'InvalidImageName',
  'ErrInvalidImageName',
]);
/** A container that cannot be created, for example because the node lacks its seccomp profile. */
const containerReasons = new Set([
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
  'StartError',
]);

/**
 * Whether the node of a pod is silent: the control plane marks its pods as not ready, but keeps the last report of the kubelet about their
 * containers.
 */
const isOnSilentNode = (pod: V1Pod): boolean =>
  condition(pod, 'Ready')?.status !== 'True' && condition(pod, 'ContainersReady')?.status === 'True';

/** Returns whether it is unknown if a pod runs. */
export const isSilent = (pod: V1Pod): boolean =>
  pod.status?.phase === 'Unknown' || (pod.status?.phase === 'Running' && isOnSilentNode(pod));

/** Whether no node has room for a pending pod. */
export const isUnscheduled = (pod: V1Pod): boolean => {
  const scheduled = condition(pod, 'PodScheduled');
  return scheduled?.status === 'False' && scheduled.reason === 'Unschedulable';
};

/** A node that is added takes one or two minutes. */
const longestScaleUpMs = 180_000;
const retryAfterSeconds = 60;

/** Returns what becomes of a pod that no node has room for. It may wait for `schedulingMs`, and for minutes if a node is being added. */
export const whileUnscheduled = (
  pod: V1Pod,
  scaleUp: ScaleUp | undefined,
  schedulingMs: number,
): Pick<Instance, 'why' | 'awaitsHost'> => {
  const { lastTransitionTime, message = '' } = condition(pod, 'PodScheduled') ?? {};
  const waitedMs = Date.now() - (lastTransitionTime?.getTime() ?? 0);
  if (scaleUp && !scaleUp.isComing) return { why: { code: 'unschedulable', detail: scaleUp.detail } };
  if (scaleUp && waitedMs < Math.max(schedulingMs, longestScaleUpMs)) return { awaitsHost: true };
  if (scaleUp) return { why: { code: 'unschedulable', detail: scaleUp.detail, retryAfterSeconds } };
  return waitedMs < schedulingMs ? {} : { why: { code: 'unschedulable', detail: message } };
};

/** Returns why a pending pod will not run; undefined while it may. It may wait for a node for `schedulingMs`. */
export const whyNotStarted = (pod: V1Pod, schedulingMs: number): Why | undefined => {
  if (isUnscheduled(pod)) return whileUnscheduled(pod, undefined, schedulingMs).why;
  const { reason = '', message = '' } = boxStatus(pod)?.state?.waiting ?? {};
  if (imageReasons.has(reason)) return { code: 'image', detail: `${reason}: ${message}` };
  if (containerReasons.has(reason)) return { code: 'exit', detail: `${reason}: ${message}` };
  return undefined;
};

/** Returns why someone other than a gateway removes a pod; undefined if nobody does. */
export const whyDisrupted = (pod: V1Pod): Why | undefined => {
  const found = condition(pod, 'DisruptionTarget');
  if (found?.status !== 'True') return undefined;
  const detail = `${found.reason}: ${found.message ?? ''}`;
  return { code: disruptions[found.reason ?? ''] ?? (isOnSilentNode(pod) ? 'node_lost' : 'evicted'), detail };
};

/** All other reasons are evictions: by the API, a taint or the kubelet. */
const disruptions: Record<string, WhyCode> = {
  PreemptionByScheduler: 'preempted',
  DeletionByPodGC: 'node_lost',
};

/** The reasons for which a kubelet ends or refuses a whole pod. */
const podReasons: Record<string, WhyCode> = {
  Evicted: 'evicted',
  NodeShutdown: 'evicted',
  Terminated: 'evicted',
  Preempting: 'preempted',
  NodeLost: 'node_lost',
  NodeAffinity: 'unschedulable',
  NodeName: 'unschedulable',
  TaintToleration: 'unschedulable',
  TopologyAffinityError: 'unschedulable',
  UnexpectedAdmissionError: 'unschedulable',
};

/** A kubelet refuses a pod if other pods have taken a resource of the node since the scheduler looked: `OutOfcpu`, `OutOfpods`, … */
const isOutOfResource = (reason: string): boolean => reason.startsWith('OutOf');

/** Returns why a pod has ended. */
export const whyEnded = (pod: V1Pod): Why => {
  const { reason = '', message = '' } = pod.status ?? {};
  const ended = boxStatus(pod)?.state?.terminated;
  const code = isOutOfResource(reason) ? 'unschedulable' : podReasons[reason];
  if (code !== undefined) return { code, detail: `${reason}: ${message}` };
  // The reason is also set if only a program of the box was killed earlier. A sandbox of gVisor that was killed has no exit code of its own.
  if (ended?.reason === 'OOMKilled' && [128, 137].includes(ended.exitCode))
    return { code: 'oom', detail: 'killed by the memory limit' };
  const disrupted = whyDisrupted(pod);
  if (disrupted) return disrupted;
  const last = [reason, message, ended && `exit code ${ended.exitCode}`, ended?.reason, ended?.message];
  return { code: 'exit', detail: last.filter(Boolean).join(': ') };
};
