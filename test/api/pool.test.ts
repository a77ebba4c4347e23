import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Box, Run } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { anyDriver, drivers, eventually, type RunningGateway, startGateway } from './harness.ts';
import { type PoolView, viewPool } from './pool-view.ts';

/** Reads the limits of a box from inside it. */
const readLimits = `
import os
def read(*names):
    for name in names:
        try: return open("/sys/fs/cgroup/" + name).read().strip()
        except OSError: pass
(read("memory/memory.limit_in_bytes", "memory.max"), read("pids/pids.max", "pids.max"))
`;

describe.each(drivers)('the pool on the %s driver', (driver) => {
  // The gateway decides on the size and the claims of a pool whatever the driver, so one driver suffices for these tests.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let view: PoolView;
  beforeAll(async () => {
    gateway = await startGateway(driver, {
      CODEBOX_WARM_BOXES: '2',
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_MAX_BOXES: '4',
      CODEBOX_QUEUE_SECONDS: '30',
    });
    view = await viewPool(gateway, driver);
  });
  afterAll(async () => {
    await view?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });
  beforeEach(() => view.full(2));

  const remove = (box: Box) => gateway.client.boxes.delete(box.id);
  const connect = async ({ id }: Box, network: string) => {
    const response = await gateway.call(`/v1/boxes/${id}`, { method: 'PATCH', body: JSON.stringify({ network }) });
    return { status: response.status, body: await response.json() };
  };

  test('a claimed warm box reports its startup kind, is fresh, and has the requested environment, files and limits', async () => {
    const box = await gateway.createBox({
      user: 'ada',
      env: { SECRET: 'a\'b"c\n$(x)', TZ: 'Asia/Tokyo' },
      files: [{ path: 'in/data.csv', text: 'a,b\n1,2\n' }],
      limits: { memoryMb: 640, pids: 200, cpus: 0.5 },
    });
    expect(box).toMatchObject({ state: 'ready', user: 'ada', continuity: 'new', startup: { kind: 'warm' } });
    expect(box.limits).toMatchObject({ memoryMb: 640, pids: 200, cpus: 0.5 });
    const first = await gateway.run(
      box.id,
      'import os, time; (os.environ["SECRET"], time.tzname[0], open("in/data.csv").read(), os.listdir())',
    );
    expect(first).toMatchObject({ executionCount: 1, text: String.raw`('a\'b"c\n$(x)', 'JST', 'a,b\n1,2\n', ['in'])` });
    expect((await gateway.run(box.id, 'sorted(n for n in dir() if not n.startswith("_"))')).text).toBe(
      "['In', 'Out', 'exit', 'get_ipython', 'open', 'os', 'quit', 'time']",
    );
    const command = await gateway.post<{ stdout: string }>(`/v1/boxes/${box.id}/commands`, { command: 'echo $TZ' });
    expect(command.body.stdout).toBe('Asia/Tokyo\n');
    expect((await gateway.run(box.id, readLimits)).text).toBe(`('${640 * 1024 * 1024}', '200')`);
    const other = await gateway.createBox();
    expect(other.startup).toMatchObject({ kind: 'warm' });
    expect((await gateway.run(other.id, 'import os; (os.environ.get("SECRET"), os.listdir())')).text).toBe(
      '(None, [])',
    );
    await Promise.all([remove(box), remove(other)]);
  });

  test('a box whose disk or network a warm instance cannot adopt is started cold', async () => {
    const box = await gateway.createBox({ limits: { diskMb: 64 } });
    expect(box).toMatchObject({ startup: { kind: 'cold' }, limits: { diskMb: 64 } });
    const size = 'import shutil; shutil.disk_usage("/mnt/data").total // 2**20 <= 64';
    expect((await gateway.run(box.id, size)).text).toBe('True');
    await remove(box);
    const { status, body } = await gateway.post<Box>('/v1/boxes', { network: 'internet' });
    if (!view.driver.capabilities.networks.includes('internet')) return expect(status).toBe(400);
    const devices = 'open("/proc/net/dev").read().count(":") > 1';
    expect((await gateway.run(body.id, devices)).text).toBe('True');
    await remove(body);
  });

  test('the network of a box in use can be changed, and its variables are kept', async () => {
    const { networks, bind } = view.driver.capabilities;
    const box = await gateway.createBox();
    const devices = '(open("/proc/net/dev").read().count(":") > 1, x)';
    await gateway.run(box.id, 'x = 1');
    if (!bind.networks.includes('internet')) return expect((await connect(box, 'internet')).status).toBe(400);
    expect(networks).toContain('internet');
    for (const [network, seen] of [
      ['internet', '(True, 1)'],
      ['none', '(False, 1)'],
    ] as const) {
      expect(await connect(box, network)).toMatchObject({ status: 200, body: { network } });
      expect((await gateway.run(box.id, devices)).text).toBe(seen);
    }
    const busy = gateway.run(box.id, `import time; time.sleep(2); ${devices}`);
    expect((await connect(box, 'internet')).status).toBe(200);
    expect((await busy).text).toBe('(True, 1)');
    expect(await connect(box, 'lan')).toMatchObject({ status: 400, body: { errors: [{ pointer: '/network' }] } });
    await remove(box);
  });

  test('the network of a box that hibernates is that of its next use', async () => {
    const box = await gateway.createBox({ limits: { diskMb: 64 } });
    const connected = () => connect(box, 'internet');
    if (!view.driver.capabilities.networks.includes('internet')) return expect((await connected()).status).toBe(400);
    // Docker starts a box without support for another network unless it is to be warm.
    if (driver === 'docker') expect((await connected()).status).toBe(409);
    expect((await gateway.post(`/v1/boxes/${box.id}/hibernate`, {})).status).toBe(200);
    expect((await connected()).status).toBe(200);
    expect((await gateway.run(box.id, 'open("/proc/net/dev").read().count(":") > 1')).text).toBe('True');
    await remove(box);
  });

  testOnce('a one-shot run is served from the pool', async () => {
    const warm = 'codebox_claims_total{kind="warm",template="python"}';
    const before = await view.metric(warm);
    const { body } = await gateway.post<Run>('/v1/run', { language: 'python', code: '6 * 7' });
    expect(body).toMatchObject({ status: 'ok', text: '42' });
    expect(await view.metric(warm)).toBe(before + 1);
  });

  test('a warm instance that has died or does not respond is never claimed, and is replaced', async () => {
    const [gone, frozen] = (await view.instances()).map(({ id }) => id);
    const signal = AbortSignal.timeout(60_000);
    await view.driver.freeze?.(frozen ?? '', signal);
    await view.driver.destroy(gone ?? '', signal);
    const boxes = await Promise.all([gateway.createBox(), gateway.createBox()]);
    for (const box of boxes) {
      expect((await gateway.run(box.id, '1+1')).text).toBe('2');
      const [row] = await view.store.instances.of(box.id);
      expect([gone, frozen]).not.toContain(row?.id);
    }
    await view.full(2);
    expect((await view.instances()).map(({ id }) => id)).not.toContain(frozen);
    await Promise.all(boxes.map(remove));
  });

  testOnce('a warm instance that dies is replaced without a claim', async () => {
    const [dying] = (await view.instances()).map(({ id }) => id);
    await view.driver.destroy(dying ?? '', AbortSignal.timeout(60_000));
    await eventually(async () => {
      const ids = (await view.instances()).map(({ id }) => id);
      return ids.length === 2 && !ids.includes(dying ?? '');
    }, 60_000);
    await view.full(2);
  });

  test('warm instances survive a restart of the gateway and can be claimed afterwards', async () => {
    const before = (await view.instances()).map(({ id }) => id).sort();
    await gateway.stop();
    await gateway.restart();
    await view.full(2);
    expect((await view.instances()).map(({ id }) => id).sort()).toEqual(before);
    const box = await gateway.createBox();
    expect(box.startup).toMatchObject({ kind: 'warm' });
    expect((await gateway.run(box.id, 'import os; len(os.listdir("/etc/ssl/certs")) > 0')).text).toBe('True');
    await remove(box);
  });

  testOnce('at the ceiling a warm instance is evicted for a box that cannot use it', async () => {
    const boxes = await Promise.all([1, 2].map(() => gateway.createBox({ limits: { diskMb: 64 } })));
    await view.full(2);
    const large = await gateway.createBox({ limits: { diskMb: 128 } });
    expect(large).toMatchObject({ state: 'ready', startup: { kind: 'cold' } });
    expect(await view.instances()).toHaveLength(4);
    await Promise.all([...boxes, large].map(remove));
  });

  testOnce('a changed template replaces the warm instances, and leaves boxes alone', async () => {
    const box = await gateway.createBox();
    await gateway.run(box.id, 'kept = 5');
    await view.full(2);
    const [own] = await view.store.instances.of(box.id);
    const before = (await view.instances()).map(({ id }) => id).filter((id) => id !== own?.id);
    const folder = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
    const templates = join(folder, 'templates.yaml');
    await writeFile(templates, 'python: { warm: 1, limits: { memoryMb: 768 } }\n');
    await gateway.stop();
    await gateway.restart({ CODEBOX_TEMPLATES: templates });
    await view.full(1);
    const after = (await view.instances()).map(({ id }) => id);
    expect(after).toHaveLength(2);
    expect(after.filter((id) => before.includes(id))).toEqual([]);
    expect((await gateway.run(box.id, 'kept')).text).toBe('5');
    const next = await gateway.createBox();
    expect(next).toMatchObject({ startup: { kind: 'warm' }, limits: { memoryMb: 768 } });
    expect((await gateway.get<{ items: { warm: number }[] }>('/v1/templates')).body.items[0]?.warm).toBe(1);
    await Promise.all([remove(box), remove(next)]);
    await rm(folder, { recursive: true });
  });
});

describe.runIf(drivers.includes('docker'))('a pool whose image is missing', () => {
  test('is retried with growing pauses, and filled as soon as the image exists', async () => {
    const { docker } = createDaemon();
    const folder = await mkdtemp(join(tmpdir(), 'codebox-templates-'));
    const templates = join(folder, 'templates.yaml');
    const tag = `pool-test-${process.pid}`;
    await writeFile(templates, `python: {}\nlate: { image: "codebox-box:${tag}", warm: 1 }\n`);
    const gateway = await startGateway('docker', { CODEBOX_TEMPLATES: templates, CODEBOX_SWEEP_SECONDS: '1' });
    const view = await viewPool(gateway, 'docker');
    const open = 'codebox_pool_breaker_open{template="late"}';
    const failed = 'codebox_driver_call_seconds_count{driver="docker",call="create",outcome="not_found"}';
    try {
      await eventually(async () => (await view.metric(open)) === 1);
      expect(gateway.output()).toContain('a warm instance could not be made');
      // Other templates are not affected.
      expect((await gateway.createBox()).state).toBe('ready');
      await docker.getImage(process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest').tag({ repo: 'codebox-box', tag });
      await view.full(1, 'late');
      expect(await view.metric(open)).toBe(0);
      expect(await view.metric(failed)).toBeLessThan(10);
      expect((await gateway.createBox({ template: 'late' })).startup).toMatchObject({ kind: 'warm' });
    } finally {
      await view[Symbol.asyncDispose]();
      await gateway.dispose();
      await docker
        .getImage(`codebox-box:${tag}`)
        .remove()
        .catch(() => {});
      await rm(folder, { recursive: true });
    }
  });
});
