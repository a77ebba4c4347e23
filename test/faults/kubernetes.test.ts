import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import type { Driver } from '../../services/gateway/drivers/driver.ts';
import { createKubernetesDriver } from '../../services/gateway/drivers/kubernetes/driver.ts';
import { collect, eventually, type GatewayProcess, readEvents, refusal, startGateways } from '../api/harness.ts';
import { runInBox, type ServedInstance, token, waitForBox, waitUntilRunning } from '../contract/box-client.ts';
import { limits } from '../contract/fixture.ts';
import { type ApiProxy, type Fault, openApiProxy } from '../kubernetes/api-proxy.ts';
import { type BoxNamespace, clusterImage, createBoxNamespace } from '../kubernetes/namespace.ts';
import { addScarceResource, type ScarceResource } from '../kubernetes/scarce-resource.ts';
import { deploymentOf } from './census.ts';
import { createPatiently } from './create-patiently.ts';
import { startRunning, ticking } from './running.ts';

const deadline = () => AbortSignal.timeout(60_000);

const templatesWith = ({ resource, low, high }: ScarceResource): string => `
python: { limits: { memoryMb: 320 }, warm: 1 }
cold: { limits: { memoryMb: 320 } }
imageless: { image: 'codebox-box:there-is-no-such-tag', limits: { memoryMb: 320 }, warm: 1 }
low: { limits: { memoryMb: 320 }, placement: { priorityClass: ${low}, resources: { ${resource}: 1 } } }
high: { limits: { memoryMb: 320 }, placement: { priorityClass: ${high}, resources: { ${resource}: 1 } } }
`;

describe('three gateways in a cluster', { timeout: 480_000 }, () => {
  let namespace: BoxNamespace;
  let scarce: ScarceResource;
  let proxy: ApiProxy;
  let folder: string;
  let gateways: GatewayProcess[];
  let gateway: GatewayProcess;
  let doomed: GatewayProcess;
  let foreign: Driver;
  let stranger: ServedInstance;

  beforeAll(async () => {
    namespace = await createBoxNamespace('gateways');
    scarce = await addScarceResource();
    proxy = await openApiProxy(namespace.kubeconfig);
    folder = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
    const file = join(folder, 'templates.yaml');
    await writeFile(file, templatesWith(scarce));
    const { settings, kubeconfig } = namespace;
    foreign = await createKubernetesDriver({ deployment: 'foreign', settings, kubeconfig });
    const spec = { id: 'stranger', token, image: clusterImage, limits, network: 'none' } as const;
    stranger = await waitUntilRunning(foreign, await foreign.create(spec, deadline()), 60_000);
    gateways = await startGateways('kubernetes', 3, {
      ...namespace.env,
      KUBECONFIG: proxy.kubeconfig,
      CODEBOX_TEMPLATES: file,
      CODEBOX_SWEEP_SECONDS: '1',
    });
    [gateway, doomed] = gateways as [GatewayProcess, GatewayProcess];
  });
  afterAll(async () => {
    await gateway?.dispose();
    await proxy?.[Symbol.asyncDispose]();
    await scarce?.[Symbol.asyncDispose]();
    await namespace?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const metric = async (series: string): Promise<string | undefined> => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return text
      .split('\n')
      .find((line) => line.startsWith(`${series} `))
      ?.slice(series.length + 1);
  };
  const untilWarm = () =>
    eventually(async () => (await metric('codebox_pool_instances{template="python",state="warm"}')) === '1', 120_000);
  const isReady = async ({ url }: GatewayProcess) => (await fetch(`${url}/readyz`)).ok;
  const failedFor = async (template: string) => {
    const { body } = await gateway.get<{ items: Box[] }>('/v1/boxes?state=failed&limit=100');
    return body.items.find((box) => box.template === template)?.cause?.code;
  };

  test('whose API server is silent serve their boxes and claim warm ones; others are refused in time, and the pool refills', async () => {
    const box = await gateway.createBox({ template: 'cold' });
    await gateway.run(box.id, 'x = 41');
    await untilWarm();
    proxy.faultOf = () => 'silence';
    proxy.cut();
    const refused = await gateway.post<Problem>('/v1/boxes', { template: 'cold' });
    expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await gateway.run(box.id, 'x + 1')).text).toBe('42');
    await gateway.call(`/v1/boxes/${box.id}/files/kept.txt`, { method: 'PUT', body: 'kept' });
    const claimed = await gateway.createBox();
    expect(claimed.startup?.kind).toBe('warm');
    await eventually(async () => !(await isReady(gateway)));
    proxy.faultOf = () => undefined;
    for (const one of gateways) await eventually(() => isReady(one));
    await untilWarm();
    expect((await gateway.run(box.id, "open('kept.txt').read(), x")).text).toBe("('kept', 41)");
    expect((await gateway.run(claimed.id, '1 + 1')).text).toBe('2');
  });

  test('whose API server refuses requests, loses responses and cuts watches create every box once', async () => {
    const faults: Fault[] = [429, 'lost response', 409, 'roles not read', undefined];
    let [requests, creations] = [0, 0];
    proxy.faultOf = ({ method, path }) => {
      requests += 1;
      if (method === 'POST' && path.includes('/pods')) return faults[creations++ % faults.length];
      if (requests % 20 === 0) proxy.cut();
      return requests % 4 === 0 ? 429 : undefined;
    };
    const creating = Promise.all(
      Array.from({ length: 3 }, () => createPatiently(gateway, { template: 'cold' }, 90_000)),
    );
    const boxes = await creating.finally(() => {
      proxy.faultOf = () => undefined;
    });
    expect(creations).toBeGreaterThan(faults.length);
    expect(new Set(boxes.map(({ id }) => id)).size).toBe(boxes.length);
    for (const { id } of boxes) expect((await gateway.run(id, '1 + 1')).text).toBe('2');

    const { settings } = namespace;
    const { kubeconfig } = proxy;
    const driver = await createKubernetesDriver({ deployment: await deploymentOf(gateway), settings, kubeconfig });
    proxy.rewrite = (path) => path.replace(/\blimit=500\b/, 'limit=1');
    expect((await driver.list(deadline())).length, 'pods on pages of one').toBeGreaterThan(boxes.length);
    proxy.rewrite = (path) => path;
  });

  test('of which one is killed in mid-stream: another resumes the stream, and nothing runs twice', async () => {
    const box = await gateway.createBox({ template: 'cold' });
    const running = await startRunning(doomed, box.id, ticking(20));
    const creating = doomed
      .post('/v1/boxes', { template: 'cold' }, { 'idempotency-key': 'cut' })
      .catch(() => undefined);
    await doomed.kill('SIGKILL');
    await Promise.allSettled([running.ended, creating]);
    const seen = running.events.at(-1)?.seq ?? 0;
    const accept = { headers: { accept: 'application/x-ndjson' } };
    const resumed = await gateway.call(`${running.location}/events?after=${seen}`, accept);
    for await (const event of readEvents(resumed)) running.events.push(event);
    const printed = running.events.map((event) => (event.type === 'stdout' ? event.text : '')).join('');
    expect(printed).toBe(Array.from({ length: 20 }, (_, line) => `${line}\n`).join(''));
    expect(running.events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    expect((await gateway.run(box.id, 'open("runs").read()')).text).toBe("'r'");
    await doomed.restart();
  });

  test('whose namespace has no quota left refuse boxes until it has', async () => {
    const quota = { name: 'nothing-left', namespace: namespace.name };
    const body = { metadata: quota, spec: { hard: { pods: '0' } } };
    await namespace.admin.createNamespacedResourceQuota({ namespace: namespace.name, body });
    const error = await eventually(() => refusal(gateway.client.boxes.create({ template: 'cold' })).catch(() => false));
    expect(error).toMatchObject({ code: 'unavailable', retryAfterSeconds: expect.any(Number) });
    expect(await failedFor('cold')).toBe('unschedulable');
    await namespace.admin.deleteNamespacedResourceQuota(quota);
    const box = await createPatiently(gateway, { template: 'cold' }, 90_000);
    expect((await gateway.run(box.id, '1 + 1')).text).toBe('2');
  });

  test('whose nodes lack an image inform the caller, and pause the pool', async () => {
    const error = await refusal(gateway.client.boxes.create({ template: 'imageless' }));
    // Only the operator can provide it, so nothing says when to try again.
    const refused = { code: 'unavailable', reason: 'image_unavailable', retryAfterSeconds: undefined };
    expect(error).toMatchObject(refused);
    expect(await failedFor('imageless')).toBe('image_unavailable');
    await eventually(async () => (await metric('codebox_pool_breaker_open{template="imageless"}')) === '1');
  });

  test('lose a box that was preempted by one of higher priority, and report this as the cause', async () => {
    const low = await gateway.createBox({ template: 'low' });
    const high = await gateway.createBox({ template: 'high' });
    const lost = await eventually(async () => {
      const found = await gateway.client.boxes.read(low.id);
      return found.state === 'lost' && found;
    });
    expect(lost.cause?.code).toBe('preempted');
    expect((await gateway.run(high.id, '1 + 1')).text).toBe('2');
  });

  test('leave nothing behind, and have left the pods of another deployment alone', async () => {
    const boxes = await collect(gateway.client.boxes.list());
    await Promise.all(boxes.map(({ id }) => gateway.client.boxes.delete(id)));
    await untilWarm();
    const labelSelector = 'codebox.deployment!=foreign,codebox.template!=imageless';
    await eventually(async () => {
      const { items } = await namespace.admin.listNamespacedPod({ namespace: namespace.name, labelSelector });
      return items.length === 1 && items[0]?.metadata?.labels?.['codebox.template'] === 'python';
    });
    await waitForBox(stranger, 60_000);
    expect((await runInBox(stranger, ['true'])).status).toBe('ok');
    expect((await foreign.list(deadline())).map(({ id }) => id)).toEqual(['stranger']);
  });
});
