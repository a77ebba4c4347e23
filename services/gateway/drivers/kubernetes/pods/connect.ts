import { PatchStrategy, setHeaderOptions, type V1Pod } from '@kubernetes/client-node';
import { networkIsFixed } from '../../binding.ts';
import type { NetworkPolicy } from '../../driver.ts';
import type { Cluster } from '../api/cluster.ts';
import { networkLabel, takesNetwork } from './pod.ts';

/**
 * Gives a running pod another network: the policies of the namespace select pods by this label. The new ones are enforced some
 * tenths of a second later, so this must not take a network away. Throws `conflict` for a pod that was not created for it.
 */
export const connectPod = async (
  cluster: Cluster,
  { metadata }: V1Pod,
  network: NetworkPolicy,
  signal: AbortSignal,
): Promise<void> => {
  if (metadata?.labels?.[networkLabel] === network) return;
  if (!takesNetwork(metadata?.annotations)) throw networkIsFixed();
  const pod = { name: metadata?.name ?? '', namespace: metadata?.namespace ?? '' };
  await cluster.call(signal, (core, options) =>
    core.patchNamespacedPod(
      { ...pod, body: { metadata: { labels: { [networkLabel]: network } } } },
      setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch, options),
    ),
  );
};
