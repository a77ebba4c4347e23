import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { Cluster } from './cluster.ts';

/** What an autoscaler does about a pod that no node has room for. */
export interface ScaleUp {
  /** Whether it adds a node for the pod. */
  isComing: boolean;
  detail: string;
}

/** How the cluster autoscaler and Karpenter report that they add a node for a pod, or that they do not. */
const reasons: Record<string, boolean> = { TriggeredScaleUp: true, Nominated: true, NotTriggerScaleUp: false };

const timeOf = ({ lastTimestamp, eventTime, metadata }: CoreV1Event): number =>
  new Date(lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? 0).getTime();

/** Returns what the last event of an autoscaler says about a pod; undefined if there is none or events may not be read. */
export const readScaleUp = async (
  cluster: Cluster,
  { metadata }: V1Pod,
  signal: AbortSignal,
): Promise<ScaleUp | undefined> => {
  const { namespace = '', uid } = metadata ?? {};
  const fieldSelector = `involvedObject.uid=${uid}`;
  const events = await cluster.callIfAllowed(signal, (core, options) =>
    core.listNamespacedEvent({ namespace, fieldSelector, limit: 100 }, options),
  );
  const [last] = (events?.items ?? [])
    .filter(({ reason }) => reasons[reason ?? ''] !== undefined)
    .sort((one, other) => timeOf(other) - timeOf(one));
  return last && { isComing: reasons[last.reason ?? ''] === true, detail: `${last.reason}: ${last.message}` };
};
