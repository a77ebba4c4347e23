import type { V1Pod } from '@kubernetes/client-node';
import type { Why } from '../../driver.ts';
import type { Cluster } from './cluster.ts';

/** How the cluster autoscaler and Karpenter report that they add a node for a pod. */
const reasons = new Set(['TriggeredScaleUp', 'Nominated']);
/** A new node takes one or two minutes. */
const retryAfterSeconds = 60;

/** Returns the event that announces a node for a pod that no node has room for, and when it is worth asking again. */
export const readScaleUp = async (
  cluster: Cluster,
  { metadata }: V1Pod,
  signal: AbortSignal,
): Promise<Pick<Why, 'detail' | 'retryAfterSeconds'> | undefined> => {
  const { namespace = '', uid } = metadata ?? {};
  const fieldSelector = `involvedObject.uid=${uid}`;
  const events = await cluster.callIfAllowed(signal, (core, options) =>
    core.listNamespacedEvent({ namespace, fieldSelector, limit: 100 }, options),
  );
  const found = events?.items.find(({ reason }) => reasons.has(reason ?? ''));
  return found && { detail: `${found.reason}: ${found.message}`, retryAfterSeconds };
};
