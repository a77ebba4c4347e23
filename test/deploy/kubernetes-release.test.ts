import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Client, createClient } from '#contract';
import { eventually, streamOf } from '../api/harness.ts';
import { ticking } from '../faults/running.ts';
import { chart, previousChart, type Values, withValues } from '../kubernetes/chart.ts';
import { loadServiceImages } from '../kubernetes/images.ts';
import { podOfBox } from '../kubernetes/pod-of-box.ts';
import { installRelease, nodeSelector, type Release } from '../kubernetes/release.ts';

const [boxRepository = '', boxTag = ''] = (process.env.CODEBOX_TEST_CLUSTER_IMAGE ?? '').split(/:(?=[^:/]*$)/);
/** The nodes are shared with other tests, which keep processors busy: less would make a start take minutes. */
const resources = { requests: { cpu: '250m', memory: '128Mi' } };
/** Most of this time is for building the images. */
const setUpMs = 900_000;
const megabyte = 1024 * 1024;
const printMetrics =
  "fetch('http://127.0.0.1:8081/metrics').then((response) => response.text()).then((text) => console.log(text))";

describe('an installed chart', { timeout: 480_000 }, () => {
  let release: Release;
  let client: Client;
  let values: Values;
  let image: string;
  /** The arguments of an upgrade to the chart of this checkout and to another tag. */
  let next: string[];
  beforeAll(async () => {
    const { service, nextTag, postgres } = await loadServiceImages();
    values = {
      image: service,
      boxes: {
        image: { repository: boxRepository, tag: boxTag },
        memory: '4Gi',
        templates: { python: { limits: { memoryMb: 384 } } },
      },
      gateway: { replicas: 2, stopSeconds: 5, resources, nodeSelector, env: { CODEBOX_KUBERNETES_CPU_SHARE: 0.05 } },
      agent: { enabled: true, stopSeconds: 5, resources, nodeSelector },
      postgres: { image: postgres, persistent: false, resources, nodeSelector },
    };
    image = `${service.repository}:${service.tag}`;
    const folder = await mkdtemp(join(tmpdir(), 'codebox-chart-'));
    const old = (await previousChart(folder)) ?? chart;
    release = await installRelease(values, { purpose: 'release', chart: old, image });
    await rm(folder, { recursive: true });
    next = [chart, '--wait', ...withValues({ ...release.values, 'image.tag': nextTag })];
    client = createClient({ url: release.url, key: release.key, retries: 4 });
  }, setUpMs);
  afterAll(() => release?.[Symbol.asyncDispose]());

  const podOf = (box: Box) => podOfBox(release.core, release.boxesNamespace, client, box);
  const listPods = async () => {
    const { items } = await release.core.listNamespacedPod({ namespace: release.boxesNamespace });
    return items.filter(({ metadata }) => !metadata?.deletionTimestamp).length;
  };

  const imagesNow = async () =>
    new Set((await release.pods('gateway')).map(({ spec }) => spec?.containers[0]?.image?.split(':').at(-1)));

  /** Runs code, writes files, creates boxes and reads streams until `change` has ended. No request may fail, and another image is used then. */
  const expectNoFailureDuring = async (change: () => Promise<unknown>) => {
    const box = await client.boxes.create({});
    const failures: unknown[] = [];
    const stop = new AbortController();
    let requests = 0;
    const repeat = async (request: () => Promise<unknown>) => {
      while (!stop.signal.aborted) {
        await request().catch((error: unknown) => failures.push(error));
        requests++;
        await sleep(300);
      }
    };
    const load = [
      repeat(async () => expect((await client.executions.run(box.id, { code: '6 * 7' })).text).toBe('42')),
      repeat(async () => client.files.write(box.id, 'file', randomBytes(megabyte))),
      repeat(async () => client.boxes.delete((await client.boxes.create({})).id)),
      repeat(async () => {
        const events = await Array.fromAsync(await client.executions.stream(box.id, { code: ticking(20) }));
        expect(streamOf(events, 'stdout')).toContain('\n19\n');
      }),
    ];
    const before = await imagesNow();
    await change();
    expect(await imagesNow()).not.toEqual(before);
    stop.abort();
    await Promise.all(load);
    expect(failures).toEqual([]);
    expect(requests).toBeGreaterThan(20);
    await client.boxes.delete(box.id);
  };

  test('no request fails while a release of the chart before its last change is upgraded', () =>
    expectNoFailureDuring(() => release.helm('upgrade', ...next)));

  test('its boxes keep variables, stream, draw, take and return large files, serve ports and terminals, and move to other pods', async () => {
    const box = await client.boxes.create({});
    await client.executions.run(box.id, { code: 'x = 41' });
    expect((await client.executions.run(box.id, { code: 'x + 1' })).text).toBe('42');
    const events = await Array.fromAsync(
      await client.executions.stream(box.id, { code: 'for i in range(3): print(i)' }),
    );
    expect(streamOf(events, 'stdout')).toBe('0\n1\n2\n');
    const code = 'import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3])';
    expect(JSON.stringify((await client.executions.run(box.id, { code })).outputs)).toContain('"image/png":"iVBOR');

    const bytes = randomBytes(100 * megabyte);
    await client.files.write(box.id, 'large.bin', bytes);
    expect(Buffer.compare(await client.files.read(box.id, 'large.bin'), bytes)).toBe(0);
    await client.commands.run(box.id, { command: 'rm large.bin; echo kept > kept.txt' });

    await client.commands.start(box.id, { command: 'python3 -m http.server 8123 --bind 127.0.0.1' });
    const port = () =>
      fetch(`${release.url}/v1/boxes/${box.id}/ports/8123/`, { headers: { Authorization: `Bearer ${release.key}` } });
    expect(await eventually(async () => (await port()).ok && (await port()).text())).toContain('kept.txt');

    const terminal = await client.terminals.open(box.id);
    terminal.write('echo $((6 * 7)); exit\r');
    let screen = '';
    for await (const event of terminal) if (event.type === 'output') screen += Buffer.from(event.bytes).toString();
    expect(screen).toMatch(/[\r\n]42\r\n/);

    const { metadata } = await podOf(box);
    expect((await client.boxes.hibernate(box.id)).state).toBe('hibernated');
    expect(await client.files.readText(box.id, 'kept.txt')).toBe('kept\n');
    expect((await podOf(box)).metadata?.name).not.toBe(metadata?.name);
    await client.boxes.delete(box.id);
  });

  test('`helm test` runs code in a box', async () => {
    expect(await release.helm('test')).toContain('Succeeded');
  });

  test('a box reaches nothing of the cluster, and its neighbours only what they serve', async () => {
    const [box, other] = await Promise.all([client.boxes.create({}), client.boxes.create({})]);
    const [gateways, agents, databases] = await Promise.all(['gateway', 'agent', 'postgres'].map(release.pods));
    const [gateway, agent, database] = [gateways?.[0], agents?.[0], databases?.[0]].map((pod) => pod?.status?.podIP);
    const { spec } = await release.core.readNamespacedService({ name: 'kubernetes', namespace: 'default' });
    const apiServer = `${spec?.clusterIP} 443`;
    const targets = [
      apiServer,
      '169.254.169.254 80',
      `${(await podOf(other)).status?.podIP} 7000`,
      `${release.databaseAddress} 5432`,
      `${database} 5432`,
      `${gateway} 8080`,
      `${gateway} 8081`,
      `${agent} 8090`,
    ];
    const knock = (all: string[]) =>
      `for each in ${all.map((each) => `'${each}'`).join(' ')}; do
        (set -- $each; timeout 3 bash -c "exec 3<>/dev/tcp/$1/$2" 2> /dev/null && echo "$each") & done; wait`;
    expect((await client.commands.run(box.id, { command: knock(targets) })).stdout).toBe('');
    const fromAgent = [apiServer, `${gateway} 8080`, `${gateway} 8081`, `${database} 5432`];
    const reached = await release.exec(agents?.[0] ?? {}, ['bash', '-c', knock(fromAgent)]);
    // A node may serve the API server at its own address, which no policy covers.
    expect(reached.trim().split('\n').sort()).toEqual([`${database} 5432`, `${gateway} 8080`].sort());
    for (const { id } of [box, other]) await client.boxes.delete(id);
  });

  test('the stream of a killed gateway continues at another one, its code runs once, and no pod is left', async () => {
    const box = await client.boxes.create({});
    const before = await listPods();
    const stream = await client.executions.stream(box.id, { code: ticking(60) });
    let printed = '';
    let kills = 0;
    for await (const event of stream) {
      if (event.type === 'stdout') printed += event.text;
      if (event.type === 'done') expect(event.status).toBe('ok');
      if (kills > 0 || !printed.includes('5')) continue;
      for (const pod of await release.pods('gateway')) {
        const metrics = await release.exec(pod, ['node', '--eval', printMetrics]);
        if (!/^codebox_open_streams\{.*\} [1-9]/m.test(metrics)) continue;
        await release.exec(pod, ['sh', '-c', 'kill -KILL $(cat /proc/1/task/1/children)']);
        kills++;
      }
    }
    expect(kills).toBe(1);
    expect(printed).toBe(Array.from({ length: 60 }, (_, line) => `${line}\n`).join(''));
    expect(await client.files.readText(box.id, 'runs')).toBe('r');
    expect(await listPods()).toBe(before);
    await client.boxes.delete(box.id);
  });

  test('no request fails while an upgrade is rolled back', () =>
    expectNoFailureDuring(() => release.helm('rollback', '--wait')));

  test('another release in the cluster has boxes of its own, and its end leaves this one alone', async () => {
    const box = await client.boxes.create({});
    await client.executions.run(box.id, { code: 'x = 41' });
    const few = { ...values, gateway: { ...(values.gateway as Values), replicas: 1 }, agent: {} };
    const other = await installRelease(few, { purpose: 'other', chart, image });
    const theirs = createClient({ url: other.url, key: other.key });
    try {
      const { id } = await theirs.boxes.create({});
      expect((await theirs.executions.run(id, { code: '6 * 7' })).text).toBe('42');
      expect((await Array.fromAsync(theirs.boxes.list())).map((each) => each.id)).toEqual([id]);
      const command = `timeout 3 bash -c 'exec 3<>/dev/tcp/${(await podOf(box)).status?.podIP}/7000' || echo closed`;
      expect((await theirs.commands.run(id, { command })).stdout).toBe('closed\n');
    } finally {
      await other[Symbol.asyncDispose]();
    }
    expect((await client.executions.run(box.id, { code: 'x + 1' })).text).toBe('42');
    await client.boxes.delete(box.id);
  });

  test('uninstalling it leaves the keys, the files, and the namespace of boxes with its policies', async () => {
    const { namespace, boxesNamespace: boxes, core, networking } = release;
    await release.helm('uninstall', '--wait');
    const labelSelector = 'app.kubernetes.io/part-of=codebox';
    const namesOf = ({ items }: { items: { metadata?: { name?: string } }[] }) =>
      items.map(({ metadata }) => metadata?.name);
    expect(namesOf(await core.listNamespacedSecret({ namespace, labelSelector }))).toEqual([
      'codebox',
      'codebox-database',
    ]);
    expect(namesOf(await core.listNamespacedPersistentVolumeClaim({ namespace }))).toEqual(['codebox-blobs']);
    expect(namesOf(await core.listNamespacedService({ namespace }))).toEqual([]);
    const pods = async () => namesOf(await core.listNamespacedPod({ namespace, labelSelector }));
    await expect.poll(pods, { timeout: 60_000 }).toEqual([]);
    expect(namesOf(await networking.listNamespacedNetworkPolicy({ namespace }))).toEqual([]);
    const policies = namesOf(await networking.listNamespacedNetworkPolicy({ namespace: boxes }));
    expect(policies).toEqual(['gateways', 'internet', 'nothing']);
    expect(namesOf(await core.listNamespacedResourceQuota({ namespace: boxes }))).toEqual(['boxes']);
  });
});
