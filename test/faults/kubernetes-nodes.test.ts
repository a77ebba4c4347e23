import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { V1Pod } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Box, hasCode, type Problem } from '#contract';
import { createKubernetesDriver } from '../../services/gateway/drivers/kubernetes/driver.ts';
import { eventually, type RunningGateway, startGateways, streamOf } from '../api/harness.ts';
import { runInBox, token, waitForBox, waitUntilRunning } from '../contract/box-client.ts';
import { fillDisk } from '../contract/box-programs.ts';
import { limits } from '../contract/fixture.ts';
import { offerLocalVolume } from '../kubernetes/local-volume.ts';
import { type BoxNamespace, clusterImage, createBoxNamespace } from '../kubernetes/namespace.ts';
import { podOfBox } from '../kubernetes/pod-of-box.ts';
import { createPatiently } from './create-patiently.ts';
import { startRunning, ticking } from './running.ts';

const execute = promisify(execFile);
/** A cluster of this machine, whose processes are named in `run/NAME.pid`; `up FOLDER NODES` starts those that are missing. */
const folder = process.env.CODEBOX_TEST_CLUSTER_TO_BREAK ?? '';
const program = `${process.env.CODEBOX_TEST_CLUSTER}/cluster`;
/** The control plane takes up to a minute to notice a silent node, and boxes are restored after that. */
const noticeMs = 180_000;
/** Starting and stopping parts of the cluster. */
const upMs = 240_000;
const outOfService = 'node.kubernetes.io/out-of-service';

describe('a cluster whose parts fail', { timeout: 480_000 }, () => {
  let namespace: BoxNamespace;
  let gateway: RunningGateway;
  /** Two boxes on the same node, one of them with a checkpoint of its files. */
  let plain: Box;
  let kept: Box;
  let node: string;

  beforeAll(async () => {
    namespace = await createBoxNamespace('nodes');
    const env = { ...namespace.env, CODEBOX_SWEEP_SECONDS: '1' };
    gateway = (await startGateways('kubernetes', 2, env))[0] as RunningGateway;
    await settle();
  });
  afterAll(async () => {
    try {
      await gateway?.dispose();
      await namespace?.[Symbol.asyncDispose]();
    } finally {
      // No other tests need it any more, and its programs take a tenth of a processor.
      if (process.env.CODEBOX_TEST_CLUSTER_STOPS === '1') await execute(program, ['down', folder], { timeout: upMs });
    }
  });

  const fileOf = (name: string) => `${folder}/run/${name}.pid`;
  const pidOf = async (name: string) => Number(await readFile(fileOf(name), 'utf8'));
  const kill = async (name: string) => {
    process.kill(await pidOf(name), 'SIGKILL');
    // Another process may get the same id, and the program would take that for this part.
    await rm(fileOf(name));
  };
  const bringBack = () => execute(program, ['up', folder, '2'], { timeout: upMs });
  const kubectl = (...args: string[]) => execute('kubectl', [`--kubeconfig=${folder}/kubeconfig`, ...args]);
  const call = (box: Box, code: string) => gateway.post<Problem>(`/v1/boxes/${box.id}/executions`, { code });
  const read = async ({ id }: Box) => (await gateway.get<Box>(`/v1/boxes/${id}`)).body;
  const create = (body: Record<string, unknown>) => createPatiently(gateway, { limits: { memoryMb: 320 }, ...body });
  const listPods = async (): Promise<V1Pod[]> =>
    (await namespace.admin.listNamespacedPod({ namespace: namespace.name })).items;
  const nodeOf = async (box: Box) =>
    (await podOfBox(namespace.admin, namespace.name, gateway.client, box)).spec?.nodeName ?? '';

  /** Makes the two boxes, one of which other tests may have lost. */
  const settle = async () => {
    const keep = { onIdle: 'hibernate' };
    // Pods are spread over the nodes, so that one of three is beside the first.
    const boxes = await Promise.all([create({}), create(keep), create(keep), create(keep)]);
    const nodes = await Promise.all(boxes.map(nodeOf));
    const beside = nodes.indexOf(nodes[0] ?? '', 1);
    [plain, kept, node] = [boxes[0], boxes[beside], nodes[0]] as [Box, Box, string];
    await gateway.run(plain.id, 'x = 41');
    await gateway.run(kept.id, 'open("kept.txt", "w").write("kept")');
    await gateway.client.boxes.checkpoint(kept.id);
    for (const { id } of boxes) if (id !== plain.id && id !== kept.id) await gateway.client.boxes.delete(id);
  };
  const clear = () => Promise.all([plain, kept].map(({ id }) => gateway.call(`/v1/boxes/${id}`, { method: 'DELETE' })));

  const expectRestored = async () => {
    const result = await eventually(async () => {
      const run = await gateway.run(kept.id, 'open("kept.txt").read()').catch((error: Error) => {
        // The restore may begin just then, or the lost pod be tried once more; no code has run.
        if (!hasCode(error.cause, 'conflict', 'box_changing') && !hasCode(error.cause, 'unavailable')) throw error;
      });
      // It may have begun on the lost pod.
      return run?.status !== 'lost' && run;
    });
    expect(result).toMatchObject({ status: 'ok', text: "'kept'" });
    expect((await read(kept)).state).toBe('ready');
    expect(await nodeOf(kept)).not.toBe(node);
  };

  test('tells a box that its volume of a storage class is full, and does not evict it', async () => {
    const [deployment, storageClass, diskMb] = ['volumes', 'codebox-test-volume', 96];
    await using _volume = await offerLocalVolume({ folder, node: 'n1', name: storageClass, sizeMb: diskMb });
    const settings = { ...namespace.settings, disk: { storageClass } };
    const driver = await createKubernetesDriver({ deployment, settings, kubeconfig: namespace.kubeconfig });
    expect(driver.capabilities.disk.isFullAnError).toBe(true);
    const spec = { id: 'full', token, image: clusterImage, limits: { ...limits, diskMb }, network: 'none' } as const;
    try {
      const made = await driver.create(spec, AbortSignal.timeout(60_000));
      const box = await waitUntilRunning(driver, made, 60_000);
      await waitForBox(box, 60_000);
      expect(await fillDisk(box)).toBe(28);
      expect((await runInBox(box, ['rm', '/mnt/data/0'])).status).toBe('ok');
      expect((await driver.inspect(box.id, AbortSignal.timeout(10_000)))?.state).toBe('running');
    } finally {
      await driver.destroy(spec.id, AbortSignal.timeout(60_000));
    }
  });

  test('serves the boxes of a node whose kubelet is silent', async () => {
    const { stdout } = await execute('pgrep', ['-f', `kubelet --config ${folder}/${node}/`]);
    const kubelet = Number(stdout);
    process.kill(kubelet, 'SIGSTOP');
    try {
      await eventually(async () => {
        expect((await gateway.run(plain.id, 'x + 1')).text).toBe('42');
        const { status } = await namespace.admin.readNode({ name: node });
        return status?.conditions?.some(({ type, status }) => type === 'Ready' && status !== 'True');
      }, noticeMs);
      expect((await gateway.run(plain.id, 'x + 1')).text).toBe('42');
    } finally {
      process.kill(kubelet, 'SIGCONT');
    }
    expect((await gateway.run(plain.id, 'x + 1')).text).toBe('42');
  });

  test('loses the boxes of a node that is drained, or restores them elsewhere', async () => {
    onTestFinished(async () => void (await kubectl('uncordon', node)));
    await kubectl('drain', node, '--force', '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=60s');
    await eventually(async () => (await read(plain)).state === 'lost', noticeMs);
    expect((await read(plain)).cause?.code).toBe('evicted');
    await expectRestored();
  });

  test('refuses to use boxes on a node without power, and gives them up when the cluster gives up the node', async () => {
    await clear();
    await settle();
    onTestFinished(async () => {
      await bringBack();
      await kubectl('taint', 'nodes', node, `${outOfService}-`);
    });
    await kill(node);
    const refused = await eventually(async () => {
      const response = await call(plain, 'x');
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('5');
      return response.body.reason === 'node_silent' && response.body;
    }, noticeMs);
    expect(refused.code).toBe('unavailable');
    expect([(await read(plain)).state, (await read(kept)).state]).toEqual(['ready', 'ready']);
    await kubectl('taint', 'nodes', node, `${outOfService}=nodeshutdown:NoExecute`);
    await eventually(async () => (await read(plain)).state === 'lost', noticeMs);
    expect((await read(plain)).cause?.code).toBe('node_lost');
    await expectRestored();
  });

  test('creates every box once while etcd is slow', async () => {
    const etcd = await pidOf('etcd');
    let isOver = false;
    const stutter = (async () => {
      for (; !isOver; await sleep(300)) {
        process.kill(etcd, 'SIGSTOP');
        await sleep(1500);
        process.kill(etcd, 'SIGCONT');
      }
    })();
    const boxes = await Promise.all(Array.from({ length: 3 }, () => create({ limits: { memoryMb: 330 } })));
    isOver = true;
    await stutter;
    for (const { id } of boxes) expect((await gateway.run(id, '1 + 1')).text).toBe('2');
    const { body } = await gateway.get<{ items: Box[] }>('/v1/boxes?state=ready&limit=100');
    await eventually(async () => (await listPods()).length === body.items.length, noticeMs);
    for (const { id } of boxes) await gateway.client.boxes.delete(id);
  });

  test('serves its boxes while its API server is away for a minute', async () => {
    const box = await create({});
    await gateway.run(box.id, 'x = 41');
    const running = await startRunning(gateway, box.id, ticking(250));
    // Its clients back off, so those that a machine of the control plane runs would take another minute to look for it again.
    for (const part of ['kube-scheduler', 'kube-controller-manager', 'kube-apiserver']) await kill(part);
    const refused = await gateway.post<Problem>('/v1/boxes', { limits: { memoryMb: 330 } });
    expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
    const printed = streamOf(await running.ended, 'stdout');
    expect(printed).toBe(Array.from({ length: 250 }, (_, line) => `${line}\n`).join(''));
    await sleep(10_000);
    const [made] = await Promise.all([create({ limits: { memoryMb: 330 } }), bringBack()]);
    expect((await gateway.run(made.id, '1 + 1')).text).toBe('2');
    expect((await gateway.run(box.id, 'x + 1')).text).toBe('42');
    for (const { id } of [box, made]) await gateway.client.boxes.delete(id);
  });
});
