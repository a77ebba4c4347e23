import { setTimeout as sleep } from 'node:timers/promises';
import {
  ApiException,
  ApiextensionsV1Api,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  PatchStrategy,
  setHeaderOptions,
  type V1ObjectMeta,
  type V1Pod,
} from '@kubernetes/client-node';
import { sandboxes } from '../../services/gateway/drivers/kubernetes/api/rights.ts';

interface Sandbox {
  metadata: V1ObjectMeta & { name: string; uid: string };
  spec: { podTemplate: Pick<V1Pod, 'metadata' | 'spec'> };
}

const definition = `${sandboxes.plural}.${sandboxes.group}`;
/** Marks the definition that is made here. */
const ours = { 'codebox.test': 'stand-in' };
const intervalMs = 100;
const servedMs = 30_000;

const unless = (status: number) => (error: unknown) => {
  if (error instanceof ApiException && error.code === status) return undefined;
  throw error;
};

/**
 * Makes the pods of the Sandboxes in a namespace, unless the cluster has agent-sandbox, whose controller then does. This one does the part of
 * it that the driver depends on: a pod of the name and the template of each Sandbox, which is made again when it is removed, and the reason
 * when it cannot be made. The definition of Sandboxes stays in the cluster, because other tests may use it too.
 */
export const startSandboxController = async (namespace: string): Promise<AsyncDisposable> => {
  const config = new KubeConfig();
  config.loadFromFile(process.env.CODEBOX_TEST_KUBECONFIG ?? '');
  if (await hasAgentSandbox(config)) return { [Symbol.asyncDispose]: async () => {} };
  const stop = new AbortController();
  const running = follow(config, namespace, stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
};

/** Whether the cluster has agent-sandbox. If not, Sandboxes are defined. */
const hasAgentSandbox = async (config: KubeConfig): Promise<boolean> => {
  const extensions = config.makeApiClient(ApiextensionsV1Api);
  const { group, version, plural } = sandboxes;
  const schema = { openAPIV3Schema: { type: 'object', x_kubernetes_preserve_unknown_fields: true } };
  const body = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: definition,
      labels: ours,
      // The API server requires it of groups under k8s.io.
      annotations: { 'api-approved.kubernetes.io': 'unapproved, for tests only' },
    },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, singular: 'sandbox', kind: 'Sandbox' },
      versions: [{ name: version, served: true, storage: true, schema, subresources: { status: {} } }],
    },
  };
  const read = () => extensions.readCustomResourceDefinition({ name: definition }).catch(unless(404));
  const found =
    (await read()) ?? (await extensions.createCustomResourceDefinition({ body }).catch(unless(409))) ?? (await read());
  // A new definition takes a moment to be served.
  const objects = config.makeApiClient(CustomObjectsApi);
  const isServed = () =>
    objects.listClusterCustomObject(sandboxes).then(
      () => true,
      () => false,
    );
  const signal = AbortSignal.timeout(servedMs);
  while (!(await isServed())) await sleep(intervalMs, undefined, { signal });
  return found?.metadata?.labels?.['codebox.test'] === undefined;
};

const follow = async (config: KubeConfig, namespace: string, signal: AbortSignal): Promise<void> => {
  const objects = config.makeApiClient(CustomObjectsApi);
  const core = config.makeApiClient(CoreV1Api);
  const kind = { ...sandboxes, namespace };

  const makePod = async ({ metadata, spec }: Sandbox): Promise<void> => {
    const { apiVersion, name, uid } = { apiVersion: `${kind.group}/${kind.version}`, ...metadata };
    const owner = { apiVersion, kind: 'Sandbox', name, uid, controller: true, blockOwnerDeletion: true };
    const template = spec.podTemplate;
    const body = {
      metadata: { ...template.metadata, name, ownerReferences: [owner] },
      spec: template.spec ?? { containers: [] },
    };
    await core.createNamespacedPod({ namespace, body }).catch(async (error: ApiException<string>) => {
      if (error.code === 409) return;
      const condition = {
        type: 'Ready',
        status: 'False',
        reason: 'ReconcilerError',
        message: `Error seen: ${error.body}`,
      };
      const patch = { ...kind, name, body: { status: { conditions: [condition] } } };
      const options = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);
      await objects.patchNamespacedCustomObjectStatus(patch, options).catch(unless(404));
    });
  };

  const makeMissing = async (): Promise<void> => {
    const { items }: { items: Sandbox[] } = await objects.listNamespacedCustomObject(kind);
    const pods = await core.listNamespacedPod({ namespace });
    const present = new Set(pods.items.map(({ metadata }) => metadata?.name));
    await Promise.all(items.filter(({ metadata }) => !present.has(metadata.name)).map(makePod));
  };

  while (!signal.aborted) {
    // Failures are retried, as by any controller.
    await makeMissing().catch(() => undefined);
    await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
  }
};
