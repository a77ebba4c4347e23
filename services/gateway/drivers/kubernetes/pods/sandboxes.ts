import { setTimeout as sleep } from 'node:timers/promises';
import { CustomObjectsApi, PatchStrategy, setHeaderOptions, type V1Pod } from '@kubernetes/client-node';
import { CodeBoxError } from '#contract';
import { InstanceFailed } from '../../instance-failed.ts';
import type { Cluster } from '../api/cluster.ts';
import { type Page, readPages } from '../api/pages.ts';
import { sandboxes } from '../api/rights.ts';
import type { PodStore } from './store.ts';

/** The fields of a Sandbox that are read. */
interface Sandbox {
  metadata: { name: string };
  spec: { podTemplate: Pick<V1Pod, 'metadata'> };
  status?: { conditions?: { type: string; reason: string; message: string }[] };
}

/** Keeps a pod from being scheduled until it is removed from its spec. */
const gate = 'codebox.unstarted';
const pollMs = 100;

const isUnstarted = (pod: V1Pod): boolean => pod.spec?.schedulingGates?.some(({ name }) => name === gate) ?? false;

/** A pod that has ended, in place of one that was removed or never started. */
const endedPod = ({ metadata }: Pick<V1Pod, 'metadata'>): V1Pod => ({
  metadata: metadata ?? {},
  status: { phase: 'Failed', message: 'The pod was removed, and does not start again.' },
});

/**
 * Creates pods through Sandboxes: the controller of agent-sandbox makes a pod of the name of the Sandbox, and another one whenever that is
 * removed. A second one would be an empty box with the identity of the first. So pods have a scheduling gate, which is removed from one pod
 * only, and any other counts as ended.
 */
export const createSandboxStore = (cluster: Cluster, namespace: string, pods: PodStore): PodStore => {
  const objects = cluster.config.makeApiClient(CustomObjectsApi);
  const kind = { ...sandboxes, namespace };

  const read = (name: string, signal: AbortSignal): Promise<Sandbox | undefined> =>
    cluster.callIfThere(signal, (_core, options) => objects.getNamespacedCustomObject({ ...kind, name }, options));

  /** Waits for the pod of a new Sandbox and lets it start. */
  const start = async (name: string, signal: AbortSignal): Promise<V1Pod> => {
    for (;;) {
      if ((await pods.find(name, signal)) !== undefined) break;
      const { conditions = [] } = (await read(name, signal))?.status ?? {};
      const obstacle = conditions.find(({ reason }) => reason === 'ReconcilerError')?.message ?? '';
      if (/exceeded quota/.test(obstacle)) throw new InstanceFailed({ code: 'unschedulable', detail: obstacle });
      if (/ is (?:forbidden|invalid): /.test(obstacle)) throw new InstanceFailed({ code: 'refused', detail: obstacle });
      await sleep(pollMs, undefined, { signal }).catch((cause: unknown) => {
        throw new Error(`agent-sandbox made no pod in time. ${obstacle}`, { cause });
      });
    }
    return await cluster.call(signal, (core, options) =>
      core.patchNamespacedPod(
        { name, namespace, body: { spec: { schedulingGates: null } } },
        setHeaderOptions('Content-Type', PatchStrategy.MergePatch, options),
      ),
    );
  };

  return {
    async create({ metadata, spec }, signal, stop) {
      const { name = '', labels, annotations } = metadata ?? {};
      const podTemplate = { metadata: { labels, annotations }, spec: { ...spec, schedulingGates: [{ name: gate }] } };
      const body = {
        apiVersion: `${kind.group}/${kind.version}`,
        kind: 'Sandbox',
        metadata: { name, labels },
        spec: { podTemplate, service: false },
      };
      const made = await cluster.callIfNew(signal, (_core, options) =>
        objects.createNamespacedCustomObject({ ...kind, body }, options),
      );
      if (made === undefined) return undefined;
      return await start(name, AbortSignal.any([signal, stop])).catch((cause: unknown) => {
        if (cause instanceof InstanceFailed) throw cause;
        throw new CodeBoxError('unavailable', 'The pod of the box could not be started.', { cause });
      });
    },
    async find(name, signal) {
      const pod = await pods.find(name, signal);
      if (pod !== undefined && !isUnstarted(pod)) return pod;
      const found = (await read(name, signal))?.spec.podTemplate ?? pod;
      return found && endedPod(found);
    },
    async list(labelSelector, signal) {
      const { items: found } = await readPages<Page<Sandbox>>((part) =>
        cluster.call(signal, (_core, options) =>
          objects.listNamespacedCustomObject({ ...kind, labelSelector, ...part }, options),
        ),
      );
      // Pods are read after the Sandboxes, so that only a removed pod is missing.
      const present = await pods.list(labelSelector, signal);
      const names = new Set(present.map(({ metadata }) => metadata?.name));
      return [
        ...present.map((pod) => (isUnstarted(pod) ? endedPod(pod) : pod)),
        ...found.filter(({ metadata }) => !names.has(metadata.name)).map(({ spec }) => endedPod(spec.podTemplate)),
      ];
    },
    async remove(name, signal) {
      // The Sandbox is deleted first, because its controller would make another pod.
      await cluster.callIfThere(signal, (_core, options) =>
        objects.deleteNamespacedCustomObject({ ...kind, name, propagationPolicy: 'Background' }, options),
      );
      await pods.remove(name, signal);
    },
  };
};
