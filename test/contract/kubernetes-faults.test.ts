import type { V1Node } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createKubernetesDriver } from '../../services/gateway/drivers/kubernetes/driver.ts';
import { podName, podOf } from '../../services/gateway/drivers/kubernetes/pods/pod.ts';
import { openApiProxy } from '../kubernetes/api-proxy.ts';
import { type BoxNamespace, clusterImage, createBoxNamespace } from '../kubernetes/namespace.ts';
import { limits } from './fixture.ts';

const deployment = 'faults';
const deadline = () => AbortSignal.timeout(30_000);
/** The control plane may wait for a node for a minute, and looks at what is left on one every 20 s. */
const patience = { timeout: 100_000, interval: 500 };

/** A node without a kubelet: this test reports its state, and nobody renews its lease. */
const nodeOf = (name: string): V1Node => ({
  metadata: { name, labels: { 'codebox.test/node': name } },
  // Other pods would wait there for ever.
  spec: { taints: [{ key: 'codebox.test/node', effect: 'NoSchedule' }] },
  status: {
    allocatable: { cpu: '4', memory: '8Gi', pods: '10', 'ephemeral-storage': '20Gi' },
    capacity: { cpu: '4', memory: '8Gi', pods: '10', 'ephemeral-storage': '20Gi' },
    conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: new Date() }],
  },
});

describe.concurrent('a cluster', () => {
  const node = `codebox-test-${process.pid}`;
  let namespace: BoxNamespace;
  beforeAll(async () => {
    namespace = await createBoxNamespace('faults');
    await namespace.admin.createNode({ body: nodeOf(node) });
  });
  afterAll(async () => {
    await namespace?.admin.deleteNode({ name: node });
    await namespace?.[Symbol.asyncDispose]();
  });

  const createDriver = () => {
    const { settings, kubeconfig } = namespace;
    return createKubernetesDriver({ deployment, settings, kubeconfig });
  };

  test('whose node is silent has unknown boxes, not lost ones, until it gives the node up', async ({
    expect,
    onTestFinished,
  }) => {
    const { admin, name: ns } = namespace;
    const driver = await createDriver();
    const ended = new Set<string | undefined>();
    const watching = driver.watch?.((id) => ended.add(id));
    onTestFinished(() => watching?.[Symbol.dispose]());
    const stateOf = (id: string) =>
      driver.inspect(id, deadline()).then(
        (found) => found?.why?.code ?? found?.state,
        (error: { code?: string }) => error.code,
      );

    const id = 'on-a-silent-node';
    const tolerations = [{ key: 'codebox.test/node', operator: 'Exists' }];
    const there = { nodeSelector: { 'codebox.test/node': node }, tolerations };
    for (const one of [id, 'dying']) {
      const spec = { id: one, token: 't', image: 'box', limits, network: 'none', placement: there } as const;
      expect((await driver.create(spec, deadline())).state).toBe('pending');
      const pod = { name: podName(deployment, one), namespace: ns };
      await expect.poll(async () => (await admin.readNamespacedPod(pod)).spec?.nodeName, patience).toBe(node);
      const reported = await admin.readNamespacedPod(pod);
      const isTrue = (type: string) => ({ type, status: 'True' });
      reported.status = {
        phase: 'Running',
        podIP: '192.0.2.7',
        podIPs: [{ ip: '192.0.2.7' }],
        conditions: ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map(isTrue),
      };
      await admin.replaceNamespacedPodStatus({ ...pod, body: reported });
      expect(await stateOf(one)).toBe('running');
    }

    await expect.poll(() => stateOf(id), patience).toBe('unavailable');
    expect(await driver.list(deadline())).toContainEqual(expect.objectContaining({ id, state: 'running' }));
    expect(ended).not.toContain(id);
    const beganAt = performance.now();
    await expect(driver.destroy('dying', deadline())).rejects.toMatchObject({ reason: 'node_silent' });
    expect(performance.now() - beganAt, 'the end of a pod on a silent node is not awaited').toBeLessThan(10_000);
    expect(await driver.list(deadline())).toContainEqual(expect.objectContaining({ id: 'dying', state: 'running' }));

    const taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
    const silent = await admin.readNode({ name: node });
    const taints = [...(silent.spec?.taints ?? []), taint];
    await admin.replaceNode({ name: node, body: { ...silent, spec: { ...silent.spec, taints } } });
    await expect.poll(() => stateOf(id), patience).toBe('node_lost');
    await expect
      .poll(
        () =>
          driver.destroy('dying', deadline()).then(
            () => 'gone',
            () => 'there',
          ),
        patience,
      )
      .toBe('gone');
    expect(ended).toContain(id);
    await driver.destroy(id, deadline());
    expect(await stateOf(id)).toBeUndefined();
  });

  describe('whose nodes have no room for a box', () => {
    /** Creates a pod that may wait for `schedulingMs`. `announce` says what an autoscaler does about it. */
    const createUnscheduled = async (id: string, schedulingMs: number) => {
      const { admin, name: ns, kubeconfig } = namespace;
      const settings = { ...namespace.settings, schedulingMs };
      const driver = await createKubernetesDriver({ deployment, settings, kubeconfig });
      const placement = { nodeSelector: { 'codebox.test/node': 'nowhere' } };
      await driver.create({ id, token: 't', image: 'box', limits, network: 'none', placement }, deadline());
      const { metadata } = await admin.readNamespacedPod({ name: podName(deployment, id), namespace: ns });
      const involvedObject = { kind: 'Pod', namespace: ns, name: metadata?.name ?? '', uid: metadata?.uid ?? '' };
      const announce = (reason: string) =>
        admin.createNamespacedEvent({
          namespace: ns,
          body: { metadata: { generateName: id }, involvedObject, reason, message: 'says the autoscaler' },
        });
      return { find: () => driver.inspect(id, deadline()), announce, end: () => driver.destroy(id, deadline()) };
    };

    test('refuses it, unless it adds a node', async ({ expect }) => {
      const { find, announce, end } = await createUnscheduled('unscheduled', 0);
      await expect.poll(find, patience).toMatchObject({ why: { code: 'unschedulable' } });
      await announce('TriggeredScaleUp');
      expect(await find()).toEqual({ id: 'unscheduled', state: 'pending', awaitsHost: true });
      await end();
    });

    test('refuses it at once if it adds none', async ({ expect }) => {
      const { find, announce, end } = await createUnscheduled('unwanted', 600_000);
      await announce('NotTriggerScaleUp');
      await expect.poll(find, patience).toMatchObject({
        why: { code: 'unschedulable', detail: 'NotTriggerScaleUp: says the autoscaler' },
      });
      await end();
    });
  });

  test.each([
    ['names no class of the cluster', { runtimeClass: 'there-is-none' }],
    ['is not valid', { nodeSelector: { disktype: 'not a label' } }],
  ])('that refuses a pod whose placement %s will do so again', async (_, placement) => {
    const driver = await createDriver();
    const spec = { id: 'refused', token: 't', image: 'box', limits, network: 'none', placement } as const;
    const failure: unknown = await driver.create(spec, deadline()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'unavailable', reason: 'box_refused', why: { code: 'refused' } });
    expect(failure).not.toHaveProperty('retryAfterSeconds', expect.anything());
    expect(failure).toHaveProperty('why.detail', expect.stringMatching(/there-is-none|not a label/));
    expect(String(failure)).not.toMatch(/there-is-none|not a label/);
  });

  test('takes pods with every setting, confined as its namespace requires', async ({ expect }) => {
    const { admin, name: ns } = namespace;
    const placement = { hostUsers: false, tolerations: [{ operator: 'Exists' }] };
    const spec = { id: 'dry', token: 't', image: 'box', limits, network: 'none', placement } as const;
    const given = { disk: { storageClass: 'fast' }, certificates: 'bundle', wheels: 'packages' };
    const settings = { ...namespace.settings, ...given };
    const body = podOf({ deployment, site: 'here', settings, packages: {}, canConnect: true }, spec);
    const made = await admin.createNamespacedPod({ namespace: ns, body, dryRun: 'All', fieldValidation: 'Strict' });
    const mounted = made.spec?.containers[0]?.volumeMounts?.map(({ mountPath }) => mountPath);
    expect(mounted).toEqual(expect.arrayContaining(['/etc/ssl/certs/ca-certificates.crt', '/opt/wheels']));
    expect(made.spec?.volumes?.find(({ name }) => name === 'mnt')?.ephemeral).toBeDefined();
    expect(made.spec).toMatchObject({ hostUsers: false, topologySpreadConstraints: [{ maxSkew: 1 }, { maxSkew: 1 }] });
  });

  test('whose changes are followed is asked only when something has changed', async ({ expect, onTestFinished }) => {
    const proxy = await openApiProxy(namespace.kubeconfig);
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const { settings } = namespace;
    const driver = await createKubernetesDriver({ deployment: 'followed', settings, kubeconfig: proxy.kubeconfig });
    const watching = driver.watch?.(() => {});
    onTestFinished(() => watching?.[Symbol.dispose]());
    const reads: string[] = [];
    proxy.faultOf = ({ method, path }) => void (method === 'GET' && !path.includes('watch=') && reads.push(path));
    const readsOf = async (work: () => Promise<unknown>) => {
      const before = reads.length;
      await work();
      return reads.length - before;
    };
    const ids = ['one', 'two'];
    const start = async (id: string) => {
      let change = driver.changed?.(id, deadline());
      const spec = { id, token: 't', image: clusterImage, limits, network: 'none' } as const;
      for (let made = await driver.create(spec, deadline()); made.state !== 'running'; ) {
        await change;
        change = driver.changed?.(id, deadline());
        made = (await driver.inspect(id, deadline())) ?? made;
      }
    };
    // The scheduler and the kubelet report a start in three steps, and some take seconds on a busy machine.
    expect(await readsOf(() => Promise.all(ids.map(start))), 'for the start of two pods').toBeLessThan(14);
    const measured = async () => (await driver.usage(ids, deadline())).size;
    expect(await readsOf(() => expect.poll(measured, patience).toBe(2))).toBeGreaterThan(0);
    expect(reads.filter((path) => /codebox.instance.*in/.test(decodeURIComponent(path)))).toEqual([]);
    const end = (id: string) => driver.destroy(id, deadline());
    // Each is read every two seconds, and takes ten on a busy node; without the informer it would be five reads a second.
    expect(await readsOf(() => Promise.all(ids.map(end))), 'for the end of two pods').toBeLessThan(16);
    expect(await driver.list(deadline())).toEqual([]);
  });

  test('is asked over kept connections, of which a silent one is not used again', async ({
    expect,
    onTestFinished,
  }) => {
    const proxy = await openApiProxy(namespace.kubeconfig);
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const { settings } = namespace;
    const driver = await createKubernetesDriver({ deployment: 'kept', settings, kubeconfig: proxy.kubeconfig });
    await driver.list(deadline());
    const before = proxy.connections();
    for (let n = 0; n < 10; n++) await driver.list(deadline());
    expect(proxy.connections() - before, 'for ten requests in turn').toBeLessThanOrEqual(1);
    proxy.faultOf = () => 'silence';
    await expect(driver.list(AbortSignal.timeout(1000))).rejects.toMatchObject({ code: 'unavailable' });
    proxy.faultOf = () => undefined;
    expect(await driver.list(deadline())).toEqual([]);
  });

  test('that evicts a pod leaves the reason, although the pod is gone', async ({ expect, onTestFinished }) => {
    const { admin, name: ns } = namespace;
    const driver = await createDriver();
    const watching = driver.watch?.(() => {});
    onTestFinished(() => watching?.[Symbol.dispose]());
    const id = 'evicted';
    await driver.create({ id, token: 't', image: clusterImage, limits, network: 'none' }, deadline());
    const stateOf = async () => (await driver.inspect(id, deadline()))?.state;
    await expect.poll(stateOf, patience).toBe('running');
    const pod = { name: podName(deployment, id), namespace: ns };
    const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: pod };
    await admin.createNamespacedPodEviction({ ...pod, body: eviction });
    const isGone = () =>
      admin.readNamespacedPod(pod).then(
        () => false,
        ({ code }) => code === 404,
      );
    await expect.poll(isGone, patience).toBe(true);
    const found = expect.poll(() => driver.inspect(id, deadline()), { timeout: 10_000 });
    await found.toMatchObject({ state: 'ended', why: { code: 'evicted' } });
    await driver.destroy(id, deadline());
    expect(await driver.inspect(id, deadline())).toBeUndefined();
  });

  test('that does not enforce network policies runs no code', async ({ expect }) => {
    await namespace.policies.deleteNamespacedNetworkPolicy({ name: 'nothing', namespace: namespace.name });
    const driver = await createDriver();
    const id = 'in-the-open';
    await driver.create({ id, token: 't', image: clusterImage, limits, network: 'none' }, deadline());
    const found = async () => (await driver.inspect(id, deadline()))?.why?.detail;
    await expect.poll(found, patience).toContain('no network policy is in force');
    await driver.destroy(id, deadline());
  });
});
