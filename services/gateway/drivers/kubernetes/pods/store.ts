import type { V1Pod, V1PodList } from '@kubernetes/client-node';
import type { Cluster } from '../api/cluster.ts';
import { readPages } from '../api/pages.ts';

/** Creates, finds and removes the pods of instances. */
export interface PodStore {
  /**
   * Creates a pod; resolves with undefined when there is one of this name. After an error it may exist. `stop` ends waiting for others, but
   * not a request that would create it.
   */
  create(pod: V1Pod, signal: AbortSignal, stop: AbortSignal): Promise<V1Pod | undefined>;
  find(name: string, signal: AbortSignal): Promise<V1Pod | undefined>;
  /** Lists the pods that a label selector selects. */
  list(labelSelector: string, signal: AbortSignal): Promise<V1Pod[]>;
  /** Begins to remove a pod, if there is one. `find` returns it until its processes have ended. */
  remove(name: string, signal: AbortSignal): Promise<void>;
}

export const listPods = (
  cluster: Cluster,
  namespace: string,
  labelSelector: string,
  signal: AbortSignal,
): Promise<V1PodList> =>
  readPages((part) =>
    cluster.call(signal, (core, options) => core.listNamespacedPod({ namespace, labelSelector, ...part }, options)),
  );

export const createPodStore = (cluster: Cluster, namespace: string): PodStore => ({
  create: (body, signal) =>
    cluster.callIfNew(signal, (core, options) => core.createNamespacedPod({ namespace, body }, options)),
  find: (name, signal) =>
    cluster.callIfThere(signal, (core, options) => core.readNamespacedPod({ name, namespace }, options)),
  list: async (labelSelector, signal) => (await listPods(cluster, namespace, labelSelector, signal)).items,
  async remove(name, signal) {
    await cluster.callIfThere(signal, (core, options) =>
      core.deleteNamespacedPod({ name, namespace, gracePeriodSeconds: 1 }, options),
    );
  },
});
