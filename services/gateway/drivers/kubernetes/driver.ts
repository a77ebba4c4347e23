import { createHash } from 'node:crypto';
import type { V1Pod } from '@kubernetes/client-node';
import { CodeBoxError } from '#contract';
import { checkBinding } from '../binding.ts';
import type { CircuitOptions } from '../circuit.ts';
import { createCreations, idIsTaken } from '../creations.ts';
import type { Capabilities, Driver, InstanceSpec, Why } from '../driver.ts';
import { InstanceFailed } from '../instance-failed.ts';
import { checkInstanceId } from '../instance-id.ts';
import type { PackageSources } from '../package-sources.ts';
import { readCapacity } from './api/capacity.ts';
import { apiStatus, type Cluster, createCluster, readKubeConfig } from './api/cluster.ts';
import { type Rights, readRights } from './api/rights.ts';
import { readScaleUp } from './api/scale-up.ts';
import { connectPod } from './pods/connect.ts';
import { createFollowedPods, type FollowedPods } from './pods/followed.ts';
import { instanceOf } from './pods/instance.ts';
import { readPlacement } from './pods/placement.ts';
import { isMadeFrom, type PodDefaults, podName, podOf, podSelector } from './pods/pod.ts';
import { resizePod } from './pods/resize.ts';
import { createSandboxStore } from './pods/sandboxes.ts';
import { createPodStore, type PodStore } from './pods/store.ts';
import { createUsageReader } from './pods/usage.ts';
import { isSilent, isUnscheduled, whileUnscheduled } from './pods/why.ts';
import type { KubernetesSettings } from './settings.ts';

const startDeadlineMs = 60_000;
const createDeadlineMs = 30_000;
/** Instances whose ids fit into one request. */
const idsAtOnce = 50;
/** How an API server refuses a pod that names what does not exist, that it cannot read, or that a policy or a webhook forbids. */
const lastingRefusals = new Set([400, 403, 404, 422]);
/**
 * How it refuses what the gateway may not do, which says nothing about the pod: soon after its start it has not read all roles and their
 * bindings yet.
 */
const notAllowed = /is forbidden: User .* cannot /;
/** The number of removed pods whose disruption is remembered. */
const maxDisruptions = 1000;

export interface KubernetesDriverOptions {
  /** Distinguishes this deployment's pods from others in the namespace: `[a-z0-9-]{1,32}`, the same after a restart. */
  deployment: string;
  /** The name of the site where its boxes run. */
  site?: string;
  settings: KubernetesSettings;
  packages?: PackageSources;
  /** The path of a kubeconfig file; see `readKubeConfig`. */
  kubeconfig?: string;
  /** Called when the API server stops responding, and when it responds again. */
  onBackend?: CircuitOptions['onChange'];
}

/**
 * Runs boxes as pods of a Kubernetes cluster. Throws a ConfigurationError when no cluster is configured, and `unavailable` when its API server
 * does not respond, the namespace does not exist, or the service account lacks a permission.
 */
export const createKubernetesDriver = async (options: KubernetesDriverOptions): Promise<Driver> => {
  const { deployment, site = 'kubernetes', settings, packages = {} } = options;
  const cluster = createCluster(readKubeConfig(options.kubeconfig), options.onBackend);
  const signal = AbortSignal.timeout(startDeadlineMs);
  const { namespace, sandboxes: usesSandboxes } = settings;
  const rights = await readRights(cluster, { namespace, usesSandboxes }, signal);
  const place = await readPlace(cluster, namespace, signal);
  const pods = createPodStore(cluster, namespace);
  const store = usesSandboxes ? createSandboxStore(cluster, namespace, pods) : pods;
  const defaults = { deployment, site, settings, packages, canConnect: rights.connect };
  const followed = createFollowedPods({ cluster, namespace, selector: podSelector(deployment) });
  const parts = { cluster, store, followed, rights, place, settings, defaults };
  const capabilities: Capabilities = {
    images: true,
    networks: ['none', 'internet'],
    networkObstacles: {},
    disk: { isFullAnError: settings.disk !== 'node' },
    volumesObstacle: 'boxes in a cluster have no shared volumes (docs/volumes.md)',
    limits: { cpus: 'instance', memoryMb: 'instance', diskMb: 'instance', pids: 'instance' },
    freeze: false,
    // Nodes start their pods side by side, and their number is unknown.
    startsAtOnce: 16,
    warmStartsAtOnce: 8,
    bind: {
      limits: rights.resize ? ['cpus', 'memoryMb'] : [],
      networks: rights.connect ? ['internet'] : [],
      volumes: false,
    },
    weaknesses: weaknessesOf(settings, rights),
  };
  return assemble(parts, capabilities);
};

/** Returns an id of the namespace: another cluster has another one under the same name, and so has the same cluster if it is recreated. */
const readPlace = async (cluster: Cluster, namespace: string, signal: AbortSignal): Promise<string> => {
  const found = await cluster.call(signal, (core, options) => core.readNamespace({ name: namespace }, options));
  return createHash('sha256')
    .update(found.metadata?.uid ?? '')
    .digest('hex')
    .slice(0, 16);
};

const weaknessesOf = ({ seccompProfile, disk, blocked }: KubernetesSettings, { usage }: Rights): string[] => [
  'Boxes share the kernel of their node, unless their template has a runtime class that brings another one.',
  ...(seccompProfile === undefined
    ? ['System calls of boxes are filtered by the default profile of the container runtime, not by that of CodeBox.']
    : []),
  ...(disk === 'node' ? ['A box that fills its disk is evicted by its node, up to a minute later.'] : []),
  ...(blocked === undefined ? ['Boxes do not check that a network policy is in force before they run code.'] : []),
  ...(usage
    ? []
    : ['The CPU time and memory that boxes use are unknown: kubelets may not be asked (get nodes/proxy).']),
];

interface Parts {
  cluster: Cluster;
  store: PodStore;
  followed: FollowedPods;
  rights: Rights;
  place: string;
  settings: KubernetesSettings;
  defaults: PodDefaults;
}

const assemble = (parts: Parts, capabilities: Capabilities): Driver => {
  const { cluster, store, followed, settings, rights, defaults } = parts;
  const { namespace, schedulingMs } = settings;
  const { deployment } = defaults;
  const creations = createCreations();
  const readUsage = createUsageReader(cluster);
  /** The reasons for which others removed pods: the API server forgets them with the pods. */
  const disrupted = new Map<string, Why>();
  const find = (id: string, signal: AbortSignal) => store.find(podName(deployment, id), signal);

  return {
    kind: 'kubernetes',
    site: defaults.site,
    place: parts.place,
    capabilities,
    checkPlacement: (placement) => void readPlacement(placement),
    // Which nodes have which is known to the scheduler alone, and changes.
    gpuObstacle: () => undefined,
    async ping(signal) {
      await cluster.call(signal, (core, options) => core.listNamespacedPod({ namespace, limit: 1 }, options));
    },
    capacity: (signal) => readCapacity(cluster, { namespace, hasNodes: rights.nodes }, signal),
    revision: async (image) => revisionOf(defaults, image),
    async create(spec, signal) {
      checkInstanceId(spec.id);
      if (spec.volumes?.length) throw new CodeBoxError('unavailable', 'Volumes are not available here.');
      return await creations.create(spec, signal, async (wanted) => {
        const pod = (await create(parts, spec, wanted)) ?? (await find(spec.id, wanted));
        // The pod with this name has been removed meanwhile.
        if (pod === undefined) throw new CodeBoxError('unavailable', 'The box is being removed.');
        if (!isMadeFrom(pod, spec)) throw idIsTaken();
        return instanceOf(pod, schedulingMs);
      });
    },
    async destroy(id, signal) {
      checkInstanceId(id);
      await creations.cancel(id, signal);
      await destroy(parts, id, signal);
      disrupted.delete(id);
    },
    async list(signal) {
      return (await store.list(podSelector(deployment), signal)).map((pod) => instanceOf(pod, schedulingMs));
    },
    async inspect(id, signal) {
      const pod = await find(id, signal);
      const why = disrupted.get(id);
      if (why && (pod === undefined || instanceOf(pod, schedulingMs).state === 'ended'))
        return { id, state: 'ended', why };
      if (pod === undefined) return undefined;
      if (isSilent(pod)) throw nodeIsSilent();
      const instance = instanceOf(pod, schedulingMs);
      if (instance.state !== 'pending' || !isUnscheduled(pod) || !rights.events) return instance;
      const scaleUp = await readScaleUp(cluster, pod, signal);
      return { id, state: 'pending', ...whileUnscheduled(pod, scaleUp, schedulingMs) };
    },
    async bind(id, change, signal) {
      checkBinding(capabilities, change);
      const pod = await find(id, signal);
      if (pod === undefined || instanceOf(pod, schedulingMs).state !== 'running')
        throw new CodeBoxError('not_found', 'There is no such instance.');
      const { cpus, memoryMb } = change.limits ?? {};
      const limits = { ...(cpus !== undefined && { cpus }), ...(memoryMb !== undefined && { memoryMb }) };
      if (Object.keys(limits).length > 0) await resizePod(cluster, settings, podName(deployment, id), limits, signal);
      if (change.network !== undefined) await connectPod(cluster, pod, change.network, signal);
    },
    async usage(ids, signal) {
      if (!rights.usage) return new Map();
      const seen = ids.map((id) => [id, followed.get(podName(deployment, id))] as const);
      const unseen = seen.flatMap(([id, pod]) => (pod === undefined ? id : []));
      const pages = Array.from({ length: Math.ceil(unseen.length / idsAtOnce) }, (_, page) =>
        store.list(podSelector(deployment, unseen.slice(page * idsAtOnce, (page + 1) * idsAtOnce)), signal),
      );
      const pods = [...seen.flatMap(([, pod]) => pod ?? []), ...(await Promise.all(pages)).flat()];
      return await readUsage(pods.filter(({ status }) => status?.phase === 'Running'));
    },
    changed: (id, signal) => followed.changed(podName(deployment, id), signal),
    watch(onChange) {
      return followed.follow({
        onEnd: onChange,
        onDisrupted(id, why) {
          disrupted.set(id, why);
          const oldest = disrupted.size > maxDisruptions ? disrupted.keys().next().value : undefined;
          if (oldest !== undefined) disrupted.delete(oldest);
        },
      });
    },
  };
};

const nodeIsSilent = () =>
  new CodeBoxError('unavailable', 'The node of the box is silent.', { reason: 'node_silent', retryAfterSeconds: 5 });

/** Returns a digest of the pod that an instance would have. An image is identified by its reference only. */
const revisionOf = (defaults: PodDefaults, image: string): string => {
  const limits = { cpus: 1, memoryMb: 1024, diskMb: 1024, pids: 256 };
  const pod = podOf(defaults, { id: 'any', token: '', image, limits, network: 'internet' });
  return createHash('sha256').update(JSON.stringify(pod)).digest('hex');
};

/** Creates a pod; resolves with undefined when there is one of this name. After an error nothing is left behind. */
const create = async (parts: Parts, spec: InstanceSpec, signal: AbortSignal): Promise<V1Pod | undefined> => {
  const { store, defaults } = parts;
  try {
    // Independent of the caller's signal: a request that has been sent may create the pod after the clean-up.
    const made = await store.create(podOf(defaults, spec), AbortSignal.timeout(createDeadlineMs), signal);
    if (made !== undefined) signal.throwIfAborted();
    return made;
  } catch (cause) {
    const refusal = cause instanceof CodeBoxError ? cause.cause : undefined;
    const status = apiStatus(refusal) ?? 500;
    const isRefused = status < 500;
    // The caller's signal may have caused the failure, so the clean-up has a deadline of its own.
    if (!isRefused) await destroy(parts, spec.id, AbortSignal.timeout(createDeadlineMs)).catch(() => undefined);
    if (isRefused && /exceeded quota/.test(String(refusal)))
      throw new InstanceFailed({ code: 'unschedulable', detail: String(refusal) }, cause);
    if (lastingRefusals.has(status) && !notAllowed.test(String(refusal)))
      throw new InstanceFailed({ code: 'refused', detail: String(refusal) }, cause);
    throw cause;
  }
};

/**
 * Deletes a pod and waits until its processes have ended, which its kubelet reports by removing it. Throws at once if the node is silent: the
 * deletion is accepted, but nobody knows when it takes place.
 */
const destroy = async ({ store, followed, defaults }: Parts, id: string, signal: AbortSignal): Promise<void> => {
  const name = podName(defaults.deployment, id);
  await store.remove(name, signal);
  for (;;) {
    const changed = followed.changed(name, signal, (pod) => pod === undefined || isSilent(pod));
    const pod = await store.find(name, signal);
    if (pod === undefined) return;
    if (isSilent(pod)) throw nodeIsSilent();
    await changed;
    if (signal.aborted) throw new CodeBoxError('unavailable', 'The pod could not be removed in time.');
  }
};
