import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import { createPatiently } from '../faults/create-patiently.ts';
import { startRunning } from '../faults/running.ts';
import { type BoxNamespace, createBoxNamespace, runtimeClasses } from '../kubernetes/namespace.ts';
import { podOfBox } from '../kubernetes/pod-of-box.ts';
import { eventually, type GatewayProcess, refusal, startGatewayProcess } from './harness.ts';

const templatesOn = (placement: string) => `
python: { limits: { memoryMb: 384 }, warm: 1, placement: ${placement} }
cold: { limits: { memoryMb: 320 }, placement: ${placement} }
full: { limits: { memoryMb: 320, diskMb: 32 }, placement: ${placement} }
nowhere: { placement: { nodeSelector: { codebox.test: nowhere } } }
`;

/** The nodes of a test cluster may not reach the internet, so boxes with a network reach addresses of the cluster instead. */
const clusterIsPublic = {
  metadata: { name: 'cluster-is-public' },
  spec: {
    podSelector: { matchLabels: { 'codebox.network': 'internet' } },
    policyTypes: ['Egress'],
    egress: [{ to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }],
  },
};

// These tests mostly wait for the kubelet. Boxes start several times slower on gVisor.
describe.concurrent.each(runtimeClasses)('boxes in a cluster (%s)', { timeout: 480_000 }, (runtimeClass) => {
  let namespace: BoxNamespace;
  let gateway: GatewayProcess;
  let folder: string;
  let full: Box;
  beforeAll(async () => {
    namespace = await createBoxNamespace(`api-${runtimeClass ?? 'default'}`);
    folder = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
    const file = join(folder, 'templates.yaml');
    await writeFile(file, templatesOn(JSON.stringify({ runtimeClass })));
    gateway = await startGatewayProcess('kubernetes', {
      ...namespace.env,
      CODEBOX_TEMPLATES: file,
      // No sweep runs soon enough to find a loss.
      CODEBOX_SWEEP_SECONDS: '60',
      CODEBOX_KUBERNETES_SCHEDULING_SECONDS: '0',
    });
    // Kubelets look at the sizes of disks once a minute.
    full = await create({ template: 'full' });
    const fill = 'for name in 1 2 3; do head -c 20M /dev/zero > $name; done';
    await gateway.client.commands.run(full.id, { command: fill });
  });
  afterAll(async () => {
    await gateway?.dispose();
    await namespace?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** Policies reach a new pod late when others keep the processors busy. */
  const create = (body: Record<string, unknown>) => createPatiently(gateway, body, 240_000);
  /** The name of the pod of a box. */
  const podOf = async (box: Box): Promise<string> =>
    (await podOfBox(namespace.admin, namespace.name, gateway.client, box)).metadata?.name ?? '';
  /** Whether a box reaches the API server. */
  const knock = async ({ id }: Box): Promise<string> => {
    const { spec } = await namespace.admin.readNamespacedService({ name: 'kubernetes', namespace: 'default' });
    const command = `timeout 5 bash -c 'exec 3<>/dev/tcp/${spec?.clusterIP}/443' && echo open || echo closed`;
    return (await gateway.client.commands.run(id, { command })).stdout;
  };
  const untilLost = (id: string, deadlineMs?: number): Promise<Box> =>
    eventually(async () => {
      const box = await gateway.client.boxes.read(id);
      return box.state === 'lost' && box;
    }, deadlineMs);

  test('a box keeps its variables, draws, keeps its files on another pod, and is gone when it is deleted', async () => {
    const { boxes } = gateway.client;
    const box = await create({ template: 'cold' });
    await gateway.run(box.id, 'x = 41');
    expect((await gateway.run(box.id, 'x + 1')).text).toBe('42');
    const drawn = await gateway.run(box.id, 'import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3])');
    expect(JSON.stringify(drawn.outputs)).toContain('"image/png":"iVBOR');
    await gateway.call(`/v1/boxes/${box.id}/files/kept.txt`, { method: 'PUT', body: 'kept' });
    const pod = await podOf(box);
    expect((await boxes.hibernate(box.id)).state).toBe('hibernated');
    expect((await gateway.run(box.id, "open('kept.txt').read()")).text).toBe("'kept'");
    const name = await podOf(box);
    expect(name).not.toBe(pod);
    await boxes.delete(box.id);
    expect((await refusal(gateway.client.executions.run(box.id, { code: '1' }))).code).toBe('gone');
    const gone = namespace.admin.readNamespacedPod({ namespace: namespace.name, name });
    await expect(gone).rejects.toMatchObject({ code: 404 });
  });

  test('a new box reaches nothing, from its first moment on', async () => {
    const boxes = await Promise.all(Array.from({ length: 3 }, () => create({ template: 'cold' })));
    expect(await Promise.all(boxes.map(knock))).toEqual(boxes.map(() => 'closed\n'));
    for (const { id } of boxes) await gateway.client.boxes.delete(id);
  });

  test('a warm box gets the requested limits and network while it runs', async () => {
    await namespace.policies.createNamespacedNetworkPolicy({ namespace: namespace.name, body: clusterIsPublic });
    await eventually(async () => {
      const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
      return metrics.includes('codebox_pool_instances{template="python",state="warm"} 1\n');
    }, 120_000);
    const box = await create({ limits: { cpus: 0.5, memoryMb: 512 }, network: 'internet' });
    expect(box).toMatchObject({ startup: { kind: 'warm' }, limits: { memoryMb: 512 }, network: 'internet' });
    await eventually(async () => (await knock(box)) === 'open\n');
    const pod = await namespace.admin.readNamespacedPod({ namespace: namespace.name, name: await podOf(box) });
    expect(pod.status?.containerStatuses?.[0]?.resources?.limits).toMatchObject({ cpu: '500m', memory: '512Mi' });
    expect(pod.status?.containerStatuses?.[0]?.restartCount).toBe(0);
    await gateway.client.boxes.delete(box.id);
  });

  test('a killed pod is noticed at once, and its run ends', async () => {
    const box = await create({ template: 'cold' });
    const pod = await podOf(box);
    const running = await startRunning(gateway, box.id, 'import time; print("on", flush=True); time.sleep(600)');
    await namespace.exec(pod, ['pkill', '-KILL', '-f', 'codebox_server']);
    expect((await running.ended).at(-1)).toMatchObject({ status: 'lost', cause: { code: 'box_lost' } });
    expect((await untilLost(box.id)).cause?.code).toBe('instance_lost');
  });

  test('a pod that used up its memory reports the memory limit as the cause of its loss', async () => {
    const box = await create({ template: 'cold' });
    // Programs of a box are killed before its server, unless the server is the largest process and no longer spared.
    const command = `echo 1000 > /proc/$(pgrep -of 'm codebox_serve[r]')/oom_score_adj
      for _ in $(seq 40); do python -c 'b = b"x" * (16 << 20); import time; time.sleep(60)' & done; wait`;
    // The box may end before it has responded.
    await gateway.client.commands.start(box.id, { command }).catch(() => undefined);
    expect((await untilLost(box.id)).cause?.code).toBe('memory_limit');
  });

  test('an evicted pod reports the eviction as the cause of its loss, although it is gone', async () => {
    const box = await create({ template: 'cold' });
    const name = await podOf(box);
    const { name: ns } = namespace;
    const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace: ns } };
    await namespace.admin.createNamespacedPodEviction({ name, namespace: ns, body });
    expect((await untilLost(box.id)).cause?.code).toBe('evicted');
  });

  test('a box that exceeds its disk reports the eviction as the cause of its loss', async () => {
    expect((await untilLost(full.id, 240_000)).cause?.code).toBe('evicted');
  });

  test('a box that no node has room for reports the lack of capacity as the cause of its failure', async () => {
    const error = await refusal(gateway.client.boxes.create({ template: 'nowhere' }));
    expect(error).toMatchObject({ code: 'unavailable', retryAfterSeconds: expect.any(Number) });
    const { body } = await gateway.get<{ items: Box[] }>('/v1/boxes?state=failed&limit=1');
    expect(body.items[0]?.cause?.code).toBe('unschedulable');
  });
});
