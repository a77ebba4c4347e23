import { CustomObjectsApi, KubeConfig, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sandboxes } from '../../services/gateway/drivers/kubernetes/api/rights.ts';
import { createKubernetesDriver } from '../../services/gateway/drivers/kubernetes/driver.ts';
import { podName } from '../../services/gateway/drivers/kubernetes/pods/pod.ts';
import { type BoxNamespace, clusterImage, createBoxNamespace } from '../kubernetes/namespace.ts';
import { startSandboxController } from '../kubernetes/sandbox-controller.ts';
import { limits } from './fixture.ts';

const deployment = 'sandboxes';
const deadline = () => AbortSignal.timeout(60_000);
const patience = { timeout: 60_000, interval: 200 };
const spec = (id: string) => ({ id, token: 't', image: clusterImage, limits, network: 'none' as const });

describe('a cluster with Sandboxes', () => {
  const config = new KubeConfig();
  let namespace: BoxNamespace;
  let controller: AsyncDisposable;
  beforeAll(async () => {
    config.loadFromFile(process.env.CODEBOX_TEST_KUBECONFIG ?? '');
    namespace = await createBoxNamespace('sandboxes', ['nodes', 'sandboxes']);
    controller = await startSandboxController(namespace.name);
  });
  afterAll(async () => {
    await controller?.[Symbol.asyncDispose]();
    await namespace?.[Symbol.asyncDispose]();
  });

  const createDriver = () => {
    const { settings, kubeconfig } = namespace;
    return createKubernetesDriver({ deployment, settings: { ...settings, sandboxes: true }, kubeconfig });
  };
  const podOf = (id: string) => ({ name: podName(deployment, id), namespace: namespace.name });
  const objects = () => config.makeApiClient(CustomObjectsApi);
  const leftovers = async () => {
    const found: { items: unknown[] } = await objects().listNamespacedCustomObject({
      ...sandboxes,
      namespace: namespace.name,
    });
    return [...found.items, ...(await namespace.admin.listNamespacedPod({ namespace: namespace.name })).items];
  };

  test('starts a pod once: another one that its controller makes never runs, and the instance has ended', async (context) => {
    const driver = await createDriver();
    const watching = driver.watch?.(() => {});
    context.onTestFinished(() => watching?.[Symbol.dispose]());
    // The controller restores the labels of pods.
    expect(driver.capabilities.bind.networks).toEqual([]);
    const id = 'evicted';
    await driver.create(spec(id), deadline());
    const stateOf = async () => (await driver.inspect(id, deadline()))?.state;
    await expect.poll(stateOf, patience).toBe('running');
    const first = await namespace.admin.readNamespacedPod(podOf(id));
    expect(first.metadata?.ownerReferences?.[0]).toMatchObject({ kind: 'Sandbox', name: podOf(id).name });

    const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: podOf(id) };
    await namespace.admin.createNamespacedPodEviction({ ...podOf(id), body: eviction });
    const second = () => namespace.admin.readNamespacedPod(podOf(id)).catch(() => undefined);
    const isAnother = async () => {
      const uid = (await second())?.metadata?.uid;
      return uid !== undefined && uid !== first.metadata?.uid;
    };
    await expect.poll(isAnother, patience).toBe(true);
    const found = expect.poll(() => driver.inspect(id, deadline()), patience);
    await found.toMatchObject({ state: 'ended', why: { code: 'evicted' } });
    const another = await createDriver();
    const ended = { id, state: 'ended', why: { code: 'exit' } };
    expect(await another.inspect(id, deadline())).toMatchObject(ended);
    expect(await another.list(deadline())).toMatchObject([ended]);
    // The scheduler has had time to place the pod.
    expect((await second())?.spec).toMatchObject({ schedulingGates: [{}] });
    expect((await second())?.spec?.nodeName).toBeUndefined();

    await another.destroy(id, deadline());
    expect(await leftovers()).toEqual([]);
  });

  test('reports why a pod cannot be made, and finds a Sandbox that has none', async () => {
    const driver = await createDriver();
    const quota = { metadata: { name: 'full' }, spec: { hard: { pods: '0' } } };
    await namespace.admin.createNamespacedResourceQuota({ namespace: namespace.name, body: quota });
    const isFull = async () =>
      (await namespace.admin.readNamespacedResourceQuota({ ...podOf(''), name: 'full' })).status?.hard;
    await expect.poll(isFull, patience).toMatchObject({ pods: '0' });
    await expect(driver.create(spec('no-room'), deadline())).rejects.toMatchObject({ why: { code: 'unschedulable' } });
    expect(await leftovers()).toEqual([]);

    // The state left by a gateway that was killed while it created an instance.
    const id = 'incomplete';
    const labels = { 'codebox.deployment': deployment, 'codebox.instance': id };
    const body = {
      apiVersion: `${sandboxes.group}/${sandboxes.version}`,
      kind: 'Sandbox',
      metadata: { name: podOf(id).name, labels },
      spec: { podTemplate: { metadata: { labels }, spec: { containers: [{ name: 'box', image: clusterImage }] } } },
    };
    await objects().createNamespacedCustomObject({ ...sandboxes, namespace: namespace.name, body });
    expect(await driver.list(deadline())).toMatchObject([{ id, state: 'ended' }]);
    await driver.destroy(id, deadline());
    expect(await leftovers()).toEqual([]);
  });

  test('refuses a gateway without the permission to use them', async () => {
    const rbac = config.makeApiClient(RbacAuthorizationV1Api);
    await rbac.deleteNamespacedRoleBinding({ name: 'codebox-sandboxes', namespace: namespace.name });
    const refusal = () => createDriver().then(() => '', String);
    await expect.poll(refusal, patience).toContain('may not create sandboxes');
  });
});
