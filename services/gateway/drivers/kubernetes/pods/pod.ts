import { createHash } from 'node:crypto';
import type {
  V1Container,
  V1Pod,
  V1PodDNSConfig,
  V1PodSpec,
  V1ResourceRequirements,
  V1Toleration,
  V1TopologySpreadConstraint,
} from '@kubernetes/client-node';
import { boxAccounts, boxUser } from '../../box-user.ts';
import type { BindableLimits, InstanceSpec, NetworkPolicy } from '../../driver.ts';
import { type PackageSources, packageEnvironment } from '../../package-sources.ts';
import { specDigest } from '../../spec-digest.ts';
import type { KubernetesSettings } from '../settings.ts';
import { readPlacement } from './placement.ts';
import { mountsOf, volumesOf } from './volumes.ts';

/** The properties that all pods of a driver have in common. */
export interface PodDefaults {
  deployment: string;
  site: string;
  settings: KubernetesSettings;
  packages: PackageSources;
  /** Whether the network of running pods can be changed. */
  canConnect: boolean;
}

/** The container of a box in its pod. */
export const containerName = 'box';
/** The label with the id of the instance. */
export const instanceLabel = 'codebox.instance';
/** The label by which network policies select pods. */
export const networkLabel = 'codebox.network';
/** The port of the box server. */
export const boxPort = 7000;

const specAnnotation = 'codebox.spec';
const MiB = 1024 * 1024;
/** The allowance for logs and other files outside of the volume. */
const logMb = 16;
/** Keeps Karpenter and the cluster autoscaler from ending boxes in order to use fewer nodes. */
const keepsNode = {
  'karpenter.sh/do-not-disrupt': 'true',
  'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
};

/** The name of an instance's pod: deployments that share a namespace may have instances of the same id. */
export const podName = (deployment: string, id: string): string =>
  `box-${createHash('sha256').update(deployment).digest('hex').slice(0, 8)}-${id}`;

/** Labels neither begin nor end with a hyphen. */
const labelOf = (name: string): string => name.replaceAll(/^-+|-+$/g, '');

/** The selector of all pods of a deployment or of some of its instances. */
export const podSelector = (deployment: string, ids?: readonly string[]): string =>
  `codebox.deployment=${deployment},${instanceLabel}${ids ? ` in (${ids.join(',')})` : ''}`;

/** Whether a pod was made from exactly this spec. */
export const isMadeFrom = (pod: V1Pod, spec: InstanceSpec): boolean =>
  pod.metadata?.annotations?.[specAnnotation] === specDigest(spec);

const takesNetworkAnnotation = 'codebox.takes-network';

/** Whether a pod with these annotations can get another network. */
export const takesNetwork = (annotations: Record<string, string> = {}): boolean =>
  annotations[takesNetworkAnnotation] !== undefined;

/** Returns the pod of an instance: no capabilities, no account, a read-only system, every resource bounded. */
export const podOf = (defaults: PodDefaults, spec: InstanceSpec): V1Pod => {
  const canConnect = defaults.canConnect && spec.takesNetwork === true;
  const { labels, annotations } = readPlacement(spec.placement ?? {});
  const { passwd, group } = boxAccounts(boxUser(spec.id));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: podName(defaults.deployment, spec.id),
      labels: {
        ...labels,
        'app.kubernetes.io/name': 'codebox-box',
        'codebox.deployment': defaults.deployment,
        'codebox.site': labelOf(defaults.site),
        [networkLabel]: spec.network,
        [instanceLabel]: spec.id,
        ...(spec.template !== undefined && { 'codebox.template': labelOf(spec.template) }),
      },
      annotations: {
        ...keepsNode,
        ...annotations,
        [specAnnotation]: specDigest(spec),
        'codebox.passwd': passwd,
        'codebox.group': group,
        ...(canConnect && { [takesNetworkAnnotation]: 'true' }),
      },
    },
    spec: {
      ...confinement(defaults.settings, spec),
      topologySpreadConstraints: ['kubernetes.io/hostname', 'topology.kubernetes.io/zone'].map(spreadOver(defaults)),
      dnsConfig: nameServersOf(defaults.settings, spec.network, canConnect),
      ...placed(defaults.settings, spec),
      containers: [container(defaults, spec)],
      volumes: volumesOf(defaults.settings, spec),
    },
  };
};

const confinement = ({ seccompProfile, disk }: KubernetesSettings, { id }: InstanceSpec): Partial<V1PodSpec> => ({
  restartPolicy: 'Never',
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  terminationGracePeriodSeconds: 1,
  hostname: 'box',
  dnsPolicy: 'None',
  securityContext: {
    runAsNonRoot: true,
    runAsUser: boxUser(id),
    runAsGroup: boxUser(id),
    // A new volume belongs to root.
    ...(typeof disk === 'object' && { fsGroup: boxUser(id) }),
    seccompProfile:
      seccompProfile === undefined
        ? { type: 'RuntimeDefault' }
        : { type: 'Localhost', localhostProfile: seccompProfile },
  },
});

/** Boxes of a deployment are spread over the nodes and zones that have room, so that the loss of one ends few of them. */
const spreadOver =
  ({ deployment }: PodDefaults) =>
  (topologyKey: string): V1TopologySpreadConstraint => ({
    maxSkew: 1,
    topologyKey,
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: { 'codebox.deployment': deployment } },
  });

/** Without a network, names fail at once; where one may follow, as soon as the name servers are given up. */
const nameServersOf = (
  { nameServers }: KubernetesSettings,
  network: NetworkPolicy,
  canConnect: boolean,
): V1PodDNSConfig => {
  const nameservers = [...nameServers];
  if (network !== 'none') return { nameservers };
  if (!canConnect) return { nameservers: ['127.0.0.1'] };
  const options = [
    { name: 'timeout', value: '1' },
    { name: 'attempts', value: '1' },
  ];
  return { nameservers, options };
};

const placed = ({ pullSecrets }: KubernetesSettings, { placement = {} }: InstanceSpec): Partial<V1PodSpec> => {
  const { runtimeClass, nodeSelector, tolerations, priorityClass, hostUsers } = readPlacement(placement);
  return {
    imagePullSecrets: pullSecrets.map((name) => ({ name })),
    ...(runtimeClass !== undefined && { runtimeClassName: runtimeClass }),
    ...(nodeSelector && { nodeSelector }),
    ...(tolerations && { tolerations: tolerations as V1Toleration[] }),
    ...(priorityClass !== undefined && { priorityClassName: priorityClass }),
    ...(hostUsers !== undefined && { hostUsers }),
  };
};

const container = ({ settings, packages }: PodDefaults, spec: InstanceSpec): V1Container => ({
  name: containerName,
  image: spec.image,
  imagePullPolicy: settings.pullPolicy,
  command: [...withoutCluster, ...resourceLimits(spec), 'tini', '-g', '--', '/opt/codebox/bin/start-box'],
  env: [
    { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
    ...Object.entries({
      CODEBOX_INSTANCE: spec.id,
      CODEBOX_TOKEN: spec.token,
      CODEBOX_LISTEN: `tls:[$(POD_IP)]:${boxPort}`,
      CODEBOX_ROOT: '/mnt',
      ...(settings.blocked !== undefined && { CODEBOX_AWAIT_BLOCKED: settings.blocked }),
      USER: 'user',
      LOGNAME: 'user',
      ...packageEnvironment({ ...packages, wheelsDir: settings.wheels }, spec.network),
    }).map(([name, value]) => ({ name, value })),
  ],
  resources: resources(settings, spec),
  securityContext: {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  },
  // The last lines of the log explain a failed start.
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts: mountsOf(settings),
});

/** The kubelet adds the addresses of the API server to the environment of every container. */
const withoutCluster = [
  'sh',
  '-c',
  'for name in $(env | sed -n "s/^\\(KUBERNETES_[A-Z0-9_]*\\)=.*/\\1/p"); do unset "$name"; done; exec "$@"',
  'sh',
];

/** Limits that a pod cannot have. Each box has a user of its own, so the limit on the processes of the user is that of the box. */
const resourceLimits = ({ limits: { pids, diskMb } }: InstanceSpec): string[] => [
  'prlimit',
  `--nproc=${pids}`,
  '--nofile=8192',
  '--core=0',
  '--memlock=65536',
  `--fsize=${diskMb * MiB}`,
];

const resources = (settings: KubernetesSettings, spec: InstanceSpec): V1ResourceRequirements => {
  const { limits, placement = {}, gpus } = spec;
  const extended = { ...readPlacement(placement).resources, ...(gpus && { [gpus.kind]: String(gpus.count) }) };
  const compute = computeResources(settings, limits);
  const disk = { 'ephemeral-storage': `${logMb + (settings.disk === 'node' ? limits.diskMb : 0)}Mi` };
  return {
    limits: { ...extended, ...disk, ...compute.limits },
    requests: { ...extended, ...disk, ...compute.requests },
  };
};

/** Returns the resources for the given limits. Less CPU is requested than allowed, which makes every pod `Burstable`. */
export const computeResources = ({ cpuShare }: KubernetesSettings, { cpus, memoryMb }: Partial<BindableLimits>) => {
  const memory = memoryMb === undefined ? {} : { memory: `${memoryMb}Mi` };
  const cpu = (share: number) =>
    cpus === undefined ? {} : { cpu: `${Math.max(1, Math.floor(cpus * share * 1000))}m` };
  return { limits: { ...cpu(1), ...memory }, requests: { ...cpu(cpuShare), ...memory } };
};
