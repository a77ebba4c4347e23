import { quantityToScalar } from '@kubernetes/client-node/dist/util.js';
import type { MachineCapacity } from '../../driver.ts';
import type { Cluster } from './cluster.ts';
import { readPages } from './pages.ts';

const MiB = 1024 * 1024;

/** A quantity of bytes, such as `512Mi`, in MiB. */
const toMb = (quantity: string): number => Math.floor(Number(quantityToScalar(quantity)) / MiB);

/**
 * Returns the memory that the quotas of the namespace allow or, without one, that of all nodes on which any pod may run; undefined when
 * neither is known.
 */
export const readCapacity = async (
  cluster: Cluster,
  { namespace, hasNodes }: { namespace: string; hasNodes: boolean },
  signal: AbortSignal,
): Promise<MachineCapacity | undefined> => {
  // Pods request all of the memory of their limit, so quotas on either count the same. Quotas with a scope do not count all pods.
  const quotas = await cluster.callIfAllowed(signal, (core, options) =>
    core.listNamespacedResourceQuota({ namespace }, options),
  );
  const hard = (quotas?.items ?? []).flatMap(({ spec, status }) => {
    if (spec?.scopes || spec?.scopeSelector) return [];
    const of = status?.hard ?? {};
    return [of['limits.memory'], of['requests.memory'], of.memory].filter((quantity) => quantity !== undefined);
  });
  if (hard.length > 0) return { memoryMb: Math.min(...hard.map(toMb)) };
  if (!hasNodes) return undefined;
  const { items: nodes } = await readPages((part) =>
    cluster.call(signal, (core, options) => core.listNode(part, options)),
  );
  const usable = nodes.filter(
    ({ spec }) => !spec?.unschedulable && !spec?.taints?.some(({ effect }) => effect !== 'PreferNoSchedule'),
  );
  return { memoryMb: usable.reduce((sum, { status }) => sum + toMb(status?.allocatable?.memory ?? '0'), 0) };
};
