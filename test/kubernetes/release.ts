import { PassThrough } from 'node:stream';
import {
  CoreV1Api,
  Exec,
  KubeConfig,
  KubernetesObjectApi,
  NetworkingV1Api,
  type V1Pod,
  type V1Status,
} from '@kubernetes/client-node';
import { eventually } from '../api/harness.ts';
import { helm, type Values, withValues } from './chart.ts';

/** The node that has the images of the services; undefined when all have. */
const node = process.env.CODEBOX_TEST_CLUSTER_NODE;
export const nodeSelector = node === undefined ? {} : { 'kubernetes.io/hostname': node };

/** An installed release of the chart, in namespaces of its own. */
export interface Release extends AsyncDisposable {
  namespace: string;
  boxesNamespace: string;
  /** The API at a node, through the Service. */
  url: string;
  /** The key of the first tenant. */
  key: string;
  /** All values of the release. */
  values: Values;
  /** The address of the Service of PostgreSQL. */
  databaseAddress: string;
  core: CoreV1Api;
  networking: NetworkingV1Api;
  /** Runs a command of Helm on the release. */
  helm(command: string, ...args: string[]): Promise<string>;
  /** The living pods of a part, such as `gateway`. */
  pods(part: string): Promise<V1Pod[]>;
  /** Runs a command in a pod. Resolves with its output; rejects when it fails. */
  exec(pod: V1Pod, command: string[]): Promise<string>;
}

interface ReleaseOptions {
  /** Tells the releases of one run apart. */
  purpose: string;
  /** The folder of the chart. */
  chart: string;
  /** An image of the node with a shell. */
  image: string;
}

/**
 * Installs a chart with its own PostgreSQL in namespaces of its own, and waits until all is ready. Disposing of the release removes everything.
 */
export const installRelease = async (values: Values, { purpose, chart, image }: ReleaseOptions): Promise<Release> => {
  const config = new KubeConfig();
  config.loadFromFile(process.env.CODEBOX_TEST_KUBECONFIG ?? '');
  const core = config.makeApiClient(CoreV1Api);
  const namespace = `codebox-test-${purpose}-${process.pid}`;
  const boxesNamespace = `${namespace}-boxes`;
  const ofRelease = (command: string, ...args: string[]) => helm(command, 'codebox', ...args, '--namespace', namespace);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => removeNamespaces(core, [namespace, boxesNamespace]));
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await core.createNamespace({ body: { metadata: { name: namespace, labels } } });
  stack.use(await createSharedVolume(config, namespace, image));

  const [address = '', databaseAddress = ''] = await freeAddresses(core, namespace, 2);
  const network: Values = {
    'gateway.service': { type: 'NodePort', clusterIP: address },
    'postgres.service.clusterIP': databaseAddress,
    // The cluster may have no DNS.
    hostAliases: [
      { ip: address, hostnames: ['codebox'] },
      { ip: databaseAddress, hostnames: ['codebox-postgres'] },
    ],
    'blobs.claim': { accessMode: 'ReadWriteMany', storageClass: namespace },
  };
  stack.defer(async () => void (await ofRelease('uninstall', '--ignore-not-found')));
  await ofRelease('install', chart, '--wait', ...withValues({ ...values, ...network }));

  const { spec } = await core.readNamespacedService({ name: 'codebox', namespace });
  const { items: nodes } = await core.listNode();
  const host = nodes[0]?.status?.addresses?.find(({ type }) => type === 'InternalIP')?.address;
  const { data } = await core.readNamespacedSecret({ name: 'codebox', namespace });
  const owned = stack.move();
  return {
    namespace,
    boxesNamespace,
    url: `http://${host}:${spec?.ports?.[0]?.nodePort}`,
    key: Buffer.from(data?.['api-key'] ?? '', 'base64').toString(),
    values: { ...values, ...network },
    databaseAddress,
    core,
    networking: config.makeApiClient(NetworkingV1Api),
    helm: ofRelease,
    async pods(part) {
      const labelSelector = `app.kubernetes.io/name=codebox-${part}`;
      const { items } = await core.listNamespacedPod({ namespace, labelSelector });
      return items.filter(({ status, metadata }) => status?.phase === 'Running' && !metadata?.deletionTimestamp);
    },
    exec: (pod, command) => execute(config, pod, command),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
};

const execute = async (config: KubeConfig, { metadata, spec }: V1Pod, command: string[]): Promise<string> => {
  const chunks: Buffer[] = [];
  const output = new PassThrough().on('data', (chunk: Buffer) => chunks.push(chunk));
  const { promise, resolve } = Promise.withResolvers<V1Status>();
  const where = [metadata?.namespace ?? '', metadata?.name ?? '', spec?.containers[0]?.name ?? ''] as const;
  await new Exec(config).exec(...where, command, output, output, null, false, resolve);
  const { status, message } = await promise;
  const text = Buffer.concat(chunks).toString();
  if (status !== 'Success') throw new Error(`${command.join(' ')}: ${message} ${text}`);
  return text;
};

/** Finds addresses that Services of the cluster may have, by taking and releasing some. */
const freeAddresses = async (core: CoreV1Api, namespace: string, count: number): Promise<string[]> => {
  const taken = Array.from({ length: count }, async (_, index) => {
    const body = { metadata: { name: `free-${index}` }, spec: { ports: [{ port: 1 }] } };
    return (await core.createNamespacedService({ namespace, body })).spec?.clusterIP ?? '';
  });
  const addresses = await Promise.all(taken);
  for (const index of addresses.keys()) await core.deleteNamespacedService({ namespace, name: `free-${index}` });
  return addresses;
};

const isGone = (error: { code?: number }) => {
  if (error.code !== 404) throw error;
};

const removeNamespaces = async (core: CoreV1Api, names: string[]): Promise<void> => {
  for (const name of names) await core.deleteNamespace({ name }).then(() => undefined, isGone);
  for (const name of names) await eventually(async () => !(await core.readNamespace({ name }).catch(isGone)), 120_000);
};

/** Makes a folder of the node into a volume that everybody can write, as clusters with shared storage have them. */
const createSharedVolume = async (config: KubeConfig, name: string, image: string): Promise<AsyncDisposable> => {
  const api = KubernetesObjectApi.makeApiClient(config);
  const core = config.makeApiClient(CoreV1Api);
  const hostPath = { path: `/tmp/${name}`, type: 'DirectoryOrCreate' };
  await api.create({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      capacity: { storage: '20Gi' },
      accessModes: ['ReadWriteMany'],
      storageClassName: name,
      persistentVolumeReclaimPolicy: 'Retain',
      hostPath,
    },
  } as never);
  const onNode = async (command: string) => {
    const metadata = { name };
    const container = { name: 'run', image, command: ['sh', '-c', command] };
    const spec = {
      restartPolicy: 'Never',
      nodeSelector,
      containers: [{ ...container, volumeMounts: [{ name: 'parent', mountPath: '/volume' }] }],
      volumes: [{ name: 'parent', hostPath: { path: '/tmp' } }],
    };
    await core.createNamespacedPod({ namespace: 'default', body: { metadata, spec } });
    await eventually(async () => {
      const { status } = await core.readNamespacedPod({ name, namespace: 'default' });
      if (status?.phase === 'Failed') throw new Error(`${command} failed on the node`);
      return status?.phase === 'Succeeded';
    }, 120_000);
    await core.deleteNamespacedPod({ name, namespace: 'default', gracePeriodSeconds: 0 });
    await eventually(async () => !(await core.readNamespacedPod({ name, namespace: 'default' }).catch(isGone)));
  };
  await onNode(`mkdir -m 0777 /volume/${name}`);
  return {
    async [Symbol.asyncDispose]() {
      await onNode(`rm -r /volume/${name}`);
      await core.deletePersistentVolume({ name });
    },
  };
};
