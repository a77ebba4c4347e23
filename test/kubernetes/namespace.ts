import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  CoreV1Api,
  Exec,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  loadAllYaml,
  NetworkingV1Api,
  type V1NetworkPolicy,
} from '@kubernetes/client-node';
import { z } from 'zod';
import {
  type KubernetesSettings,
  kubernetesVariables,
  toKubernetesSettings,
} from '../../services/gateway/drivers/kubernetes/settings.ts';

/** The path of an administrator's kubeconfig of the cluster that the set-up has prepared. */
const kubeconfig = process.env.CODEBOX_TEST_KUBECONFIG ?? '';

/** A box image that the nodes of the cluster have or can pull. */
export const clusterImage = process.env.CODEBOX_TEST_CLUSTER_IMAGE ?? 'codebox-box:latest';

/** The runtime classes of boxes: undefined for the default of the nodes, and another one if the cluster has it. */
export const runtimeClasses = [undefined, ...(process.env.CODEBOX_TEST_RUNTIME_CLASS?.split(',') ?? [])];

/** A namespace for boxes, made from the manifests of the chart, for gateways that run outside of the cluster. */
export interface BoxNamespace extends AsyncDisposable {
  name: string;
  /** The path of the kubeconfig of a gateway's service account. */
  kubeconfig: string;
  /** The settings of a gateway, and those of its driver among them. */
  env: Record<string, string>;
  settings: KubernetesSettings;
  /** The rights of an administrator. */
  admin: CoreV1Api;
  policies: NetworkingV1Api;
  /** Runs a command in the container of a pod and waits for its end. */
  exec(pod: string, command: string[]): Promise<void>;
}

/**
 * Makes a namespace, with the account and the policies that are deployed, and with further manifests: by default the one that lets gateways
 * ask kubelets. Disposing of it removes all of that.
 */
export const createBoxNamespace = async (purpose: string, more: string[] = ['nodes']): Promise<BoxNamespace> => {
  const name = `codebox-test-${purpose}-${process.pid}`;
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const admin = config.makeApiClient(CoreV1Api);
  const objects = KubernetesObjectApi.makeApiClient(config);
  const made: KubernetesObject[] = [];
  for (const file of ['boxes', ...more]) {
    for (const object of await readManifest(file, name)) {
      await objects.create(object);
      made.unshift(object);
    }
  }
  await objects.create(fromOutside(name));
  const folder = await mkdtemp(join(tmpdir(), 'codebox-cluster-'));
  const path = join(folder, 'kubeconfig');
  await writeFile(path, await accountConfig(config, name), { mode: 0o600 });

  const env = {
    KUBECONFIG: path,
    CODEBOX_KUBERNETES_NAMESPACE: name,
    CODEBOX_KUBERNETES_PULL_POLICY: process.env.CODEBOX_TEST_PULL_POLICY ?? 'IfNotPresent',
    CODEBOX_KUBERNETES_CPU_SHARE: '0.05',
    // Pods with such a share wait long for busy processors, and a busy kubelet reports late that it has ended one.
    CODEBOX_SILENCE_SECONDS: '60',
    CODEBOX_BOX_IMAGE: clusterImage,
  };
  return {
    name,
    kubeconfig: path,
    env,
    settings: toKubernetesSettings(z.object(kubernetesVariables).parse(env)),
    admin,
    policies: config.makeApiClient(NetworkingV1Api),
    async exec(pod, command) {
      const output = new PassThrough().resume();
      const { promise, resolve } = Promise.withResolvers<void>();
      const socket = await new Exec(config).exec(name, pod, 'box', command, output, output, null, false);
      // A command that ends its own pod may cut the connection.
      socket.on('close', () => resolve());
      await promise;
    },
    async [Symbol.asyncDispose]() {
      const isGone = (error: { code?: number }) => {
        if (error.code !== 404) throw error;
      };
      for (const object of made) await objects.delete(object).then(() => undefined, isGone);
      while (await admin.readNamespace({ name }).then(() => true, isGone)) await sleep(300);
      await rm(folder, { recursive: true });
    },
  };
};

/** Reads a manifest of the project for another namespace, which is also that of the gateway's account. */
const readManifest = async (file: string, namespace: string): Promise<KubernetesObject[]> => {
  const text = await readFile(new URL(`../../deploy/helm/codebox/files/${file}.yaml`, import.meta.url), 'utf8');
  const renamed = text
    .replaceAll('codebox-boxes', namespace)
    .replaceAll('codebox-nodes', `${namespace}-nodes`)
    .replaceAll(/namespace: codebox$/gm, `namespace: ${namespace}`);
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'codebox-gateway', namespace } };
  const objects: KubernetesObject[] = loadAllYaml(renamed);
  return file === 'boxes' ? [...objects, account] : objects;
};

/** Lets gateways outside of the cluster reach the box servers. */
const fromOutside = (namespace: string): V1NetworkPolicy => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'tests', namespace },
  spec: {
    podSelector: {},
    policyTypes: ['Ingress'],
    ingress: [
      {
        _from: [{ ipBlock: { cidr: '0.0.0.0/0' } }],
        ports: [{ protocol: 'TCP', port: 7000 }],
      },
    ],
  },
});

/** Returns a kubeconfig with a token of the gateway's account. */
const accountConfig = async (config: KubeConfig, namespace: string): Promise<string> => {
  const { status: given } = await config.makeApiClient(CoreV1Api).createNamespacedServiceAccountToken({
    name: 'codebox-gateway',
    namespace,
    body: { spec: { audiences: [], expirationSeconds: 3600 * 4 } },
  });
  const cluster = config.getCurrentCluster();
  if (!cluster || !given) throw new Error('the cluster gave no token');
  const account = new KubeConfig();
  account.loadFromClusterAndUser(cluster, { name: 'codebox-gateway', token: given.token ?? '' });
  return account.exportConfig();
};
