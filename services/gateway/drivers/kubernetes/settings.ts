import { z } from 'zod';

/** The settings of the Kubernetes driver. */
export interface KubernetesSettings {
  /** The namespace of the pods. */
  namespace: string;
  pullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  /** The names of secrets in that namespace, for the registries of images. */
  pullSecrets: readonly string[];
  /** The profile of system calls on the nodes, relative to the kubelet's folder; undefined for that of the container runtime. */
  seccompProfile: string | undefined;
  /** The kind of the volume of a box: a folder of its node, memory, or a volume of a storage class. */
  disk: 'node' | 'memory' | { storageClass: string };
  /** A ConfigMap of that namespace whose key `ca-certificates.crt` replaces the certificates of the system in boxes. */
  certificates: string | undefined;
  /** A PersistentVolumeClaim of that namespace with packages for boxes. */
  wheels: string | undefined;
  /** The share of its CPU limit that a pod requests, so that the scheduler reserves it. */
  cpuShare: number;
  /** How long a pod may wait for a node before it counts as unschedulable. */
  schedulingMs: number;
  /** An `address:port` that the network policy blocks, which boxes check before they accept requests; undefined without a check. */
  blocked: string | undefined;
  /** The addresses of the name servers of boxes with a network. */
  nameServers: readonly string[];
  /** Whether pods are created through Sandboxes, by the controller of agent-sandbox. */
  sandboxes: boolean;
}

/** The environment variables of the driver. */
export const kubernetesVariables = {
  CODEBOX_KUBERNETES_NAMESPACE: z
    .string()
    .regex(/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')
    .default('codebox-boxes'),
  CODEBOX_KUBERNETES_PULL_POLICY: z.enum(['Always', 'IfNotPresent', 'Never']).default('IfNotPresent'),
  CODEBOX_KUBERNETES_PULL_SECRETS: z.string().default(''),
  CODEBOX_KUBERNETES_SECCOMP: z.string().min(1).optional(),
  CODEBOX_KUBERNETES_DISK: z
    .string()
    .regex(/^(?:node|memory|class:[a-z0-9][-.a-z0-9]*)$/, 'must be node, memory, or class: and a storage class')
    .default('node'),
  CODEBOX_KUBERNETES_CA_BUNDLE: z.string().min(1).optional(),
  CODEBOX_KUBERNETES_WHEELS: z.string().min(1).optional(),
  CODEBOX_KUBERNETES_CPU_SHARE: z.coerce.number().min(0.01).max(0.99).default(0.25),
  CODEBOX_KUBERNETES_SCHEDULING_SECONDS: z.coerce.number().min(0).max(600).default(10),
  CODEBOX_KUBERNETES_BLOCKED: z
    .string()
    .regex(/^(?:none|(?:[0-9.]+|\[[0-9a-f:.]+\]):\d{1,5})$/i, 'must be address:port, or none')
    // The API server, as the kubelet expands it from the environment of each pod.
    .default('$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)'),
  // Those of the cluster have private addresses, which the policies block.
  CODEBOX_KUBERNETES_NAME_SERVERS: z
    .string()
    .regex(/^[0-9a-f.:]+(?: *, *[0-9a-f.:]+){0,2}$/i, 'must be one to three addresses, separated by commas')
    .default('1.1.1.1,8.8.8.8'),
  CODEBOX_KUBERNETES_SANDBOXES: z.enum(['0', '1']).default('0'),
};

type KubernetesVariables = z.output<z.ZodObject<typeof kubernetesVariables>>;

/** Converts the variables. */
export const toKubernetesSettings = (values: KubernetesVariables): KubernetesSettings => ({
  namespace: values.CODEBOX_KUBERNETES_NAMESPACE,
  pullPolicy: values.CODEBOX_KUBERNETES_PULL_POLICY,
  pullSecrets: toList(values.CODEBOX_KUBERNETES_PULL_SECRETS),
  seccompProfile: values.CODEBOX_KUBERNETES_SECCOMP,
  disk: toDisk(values.CODEBOX_KUBERNETES_DISK),
  certificates: values.CODEBOX_KUBERNETES_CA_BUNDLE,
  wheels: values.CODEBOX_KUBERNETES_WHEELS,
  cpuShare: values.CODEBOX_KUBERNETES_CPU_SHARE,
  schedulingMs: values.CODEBOX_KUBERNETES_SCHEDULING_SECONDS * 1000,
  blocked: values.CODEBOX_KUBERNETES_BLOCKED === 'none' ? undefined : values.CODEBOX_KUBERNETES_BLOCKED,
  nameServers: toList(values.CODEBOX_KUBERNETES_NAME_SERVERS),
  sandboxes: values.CODEBOX_KUBERNETES_SANDBOXES === '1',
});

const toList = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

const toDisk = (text: string): KubernetesSettings['disk'] => {
  if (text === 'node' || text === 'memory') return text;
  return { storageClass: text.slice('class:'.length) };
};
