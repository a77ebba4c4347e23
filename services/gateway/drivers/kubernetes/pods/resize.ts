import { setTimeout as sleep } from 'node:timers/promises';
import { PatchStrategy, setHeaderOptions, type V1Pod } from '@kubernetes/client-node';
import { quantityToScalar } from '@kubernetes/client-node/dist/util.js';
import { CodeBoxError } from '#contract';
import type { BindableLimits } from '../../driver.ts';
import type { Cluster } from '../api/cluster.ts';
import type { KubernetesSettings } from '../settings.ts';
import { computeResources, containerName } from './pod.ts';

const pollMs = 200;
/** Nodes change limits within 3 s. They postpone a limit below the memory in use indefinitely, without an error. */
const longestMs = 8000;

/**
 * Changes limits of a running pod in place, and waits until its kubelet reports them. Throws `unavailable` when the node lacks the capacity,
 * when the box already uses more memory, and when they are not in force in time.
 */
export const resizePod = async (
  cluster: Cluster,
  settings: KubernetesSettings,
  name: string,
  limits: Partial<BindableLimits>,
  until: AbortSignal,
): Promise<void> => {
  const signal = AbortSignal.any([until, AbortSignal.timeout(longestMs)]);
  const { namespace } = settings;
  const resources = computeResources(settings, limits);
  await cluster.call(signal, (core, options) =>
    core.patchNamespacedPodResize(
      { name, namespace, body: { spec: { containers: [{ name: containerName, resources }] } } },
      setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch, options),
    ),
  );
  for (;;) {
    const pod = await cluster.call(signal, (core, options) => core.readNamespacedPod({ name, namespace }, options));
    const refusal = refusalOf(pod);
    if (refusal !== undefined) throw refused(refusal);
    if (isInForce(pod, resources.limits)) return;
    await sleep(pollMs, undefined, { signal }).catch(() => {
      throw refused('not in time');
    });
  }
};

/** Returns why the kubelet refuses a change; undefined while it may apply it. */
const refusalOf = (pod: V1Pod): string | undefined => {
  for (const { type, reason, message } of pod.status?.conditions ?? []) {
    if (type === 'PodResizePending' || (type === 'PodResizeInProgress' && reason === 'Error'))
      return `${reason}: ${message}`;
  }
  return undefined;
};

const isInForce = (pod: V1Pod, wanted: Record<string, string>): boolean => {
  const actual = pod.status?.containerStatuses?.[0]?.resources?.limits ?? {};
  return Object.entries(wanted).every(
    ([name, quantity]) => quantityToScalar(actual[name] ?? '0') === quantityToScalar(quantity),
  );
};

const refused = (detail: string): CodeBoxError =>
  new CodeBoxError('unavailable', 'A limit of the box is not in force.', { cause: new Error(detail) });
