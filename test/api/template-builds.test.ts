import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Box,
  type BuildEvent,
  buildEventSchema,
  type Problem,
  type Template,
  type TemplateVersion,
} from '#contract';
import { openStore } from '../../services/gateway/store/store.ts';
import {
  anyDriver,
  databaseUrl,
  drivers,
  eventually,
  type GatewayProcess,
  mainDriver,
  startGatewayProcess,
  startGateways,
} from './harness.ts';
import { adminKey, endTenants, makeTenant } from './operator.ts';
import { downloadWheels } from './wheels.ts';

let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  wheels = await downloadWheels('cowsay');
});
afterAll(() => wheels?.[Symbol.asyncDispose]());

const put = async <T = TemplateVersion>(gateway: GatewayProcess, name: string, body: unknown, headers = {}) => {
  const response = await gateway.call(`/v1/templates/${name}`, { method: 'PUT', body: JSON.stringify(body), headers });
  return { status: response.status, body: (await response.json()) as T };
};
const at = ({ template, version }: TemplateVersion) => `/v1/templates/${template}/versions/${version}`;
const events = async (gateway: GatewayProcess, version: TemplateVersion) => {
  const headers = { accept: 'application/x-ndjson' };
  const response = await gateway.call(`${at(version)}/log`, { headers });
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  return lines.map((line) => buildEventSchema.parse(JSON.parse(line)));
};
/** Builds the next version of a template; resolves with its log once it is over. */
const build = async (gateway: GatewayProcess, name: string, body: unknown) => {
  const begun = await put(gateway, name, body);
  expect(begun).toMatchObject({ status: 202, body: { state: 'building' } });
  return { version: begun.body, log: await events(gateway, begun.body) };
};
const shell = async (gateway: GatewayProcess, box: string, command: string) =>
  (await gateway.post<{ stdout: string }>(`/v1/boxes/${box}/commands`, { command })).body.stdout;

describe.each(drivers)('templates built on the %s driver', (driver) => {
  const testFirst = mainDriver.includes(driver) ? test : () => {};
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  beforeAll(async () => {
    const env = { CODEBOX_SWEEP_SECONDS: '1', CODEBOX_WHEELS_DIR: wheels.folder, CODEBOX_ADMIN_KEY: adminKey };
    gateway = await startGatewayProcess(driver, env);
  });
  afterAll(async () => {
    for await (const { id } of gateway.client.boxes.list()) await gateway.client.boxes.delete(id);
    await endTenants(gateway);
    // Its warm instances belong to no box.
    await gateway.call('/v1/templates/own', { method: 'DELETE' });
    await eventually(async () => !(await (await gateway.call('/metrics')).text()).includes('codebox_pool_instances{'));
    await gateway.dispose();
  });

  const create = async (template: string, more = {}) =>
    (await gateway.post<Box>('/v1/boxes', { template, ...more })).body;

  testFirst(
    'a template is built in a box, its boxes are warm, and its next version replaces them while boxes stay',
    async () => {
      const settings = { warm: 1, idleSeconds: 77, limits: { memoryMb: 352 } };
      const { version, log } = await build(gateway, 'own', {
        ...settings,
        env: { COLOR: 'red', KIND: 'old' },
        files: [{ path: 'in/data.txt', text: 'one' }],
        packages: { pip: ['cowsay'] },
        commands: ['echo "set up" | tee out.txt', 'cat in/data.txt >> out.txt'],
      });
      expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
      expect(log.at(-1)).toMatchObject({ type: 'done', state: 'ready', cause: null });
      const steps = log.flatMap((event) => (event.type === 'step' ? [event.text] : []));
      expect(steps).toContain('pip install cowsay');
      const output = log.map((event) => (event.type === 'output' ? event.text : '')).join('');
      expect(output).toMatch(/Successfully installed cowsay[\s\S]*set up\n/);
      expect(await gateway.get<Template>('/v1/templates/own')).toMatchObject({
        body: { name: 'own', version: 1, ...settings, limits: { memoryMb: 352, cpus: 1 } },
      });
      // Once an instance is warm, a box has what was built at once, beneath what its own request asks for.
      let box = await create('own');
      await eventually(async () => {
        await gateway.call(`/v1/boxes/${box.id}`, { method: 'DELETE' });
        box = await create('own', { env: { KIND: 'new' } });
        return box.startup?.kind === 'warm';
      });
      expect(box).toMatchObject({ template: 'own', idleSeconds: 77 });
      expect(await shell(gateway, box.id, 'cat out.txt; echo $COLOR $KIND')).toBe('set up\none' + 'red new\n');
      expect((await gateway.run(box.id, 'import cowsay, os; os.environ["COLOR"]')).text).toBe("'red'");
      // It hibernates and returns like any other box.
      await gateway.post(`/v1/boxes/${box.id}/hibernate`, {});
      const next = await build(gateway, 'own', {
        from: { template: 'own' },
        commands: ['echo two > out.txt'],
        warm: 1,
      });
      expect(next.log.at(-1)).toMatchObject({ state: 'ready' });
      expect(await shell(gateway, box.id, 'cat out.txt; echo $COLOR $KIND')).toBe('set up\none' + 'red new\n');
      const second = await create('own');
      expect(await shell(gateway, second.id, 'cat out.txt in/data.txt; echo $KIND')).toBe('two\none' + 'old\n');
      const { body } = await gateway.get<{ items: TemplateVersion[] }>('/v1/templates/own/versions');
      expect(body.items.map(({ version, state }) => [version, state])).toEqual([
        [2, 'ready'],
        [1, 'replaced'],
      ]);
      expect((await gateway.get(at(version))).body).toMatchObject({ state: 'replaced', sizeBytes: expect.any(Number) });
      // The boxes of builds are gone.
      const { body: left } = await gateway.get<{ items: Box[] }>('/v1/boxes');
      expect(left.items.filter(({ metadata }) => 'codebox.build' in metadata)).toEqual([]);
    },
  );

  testOnce('a box becomes a template with its files and environment', async () => {
    const { body: source } = await gateway.post<Box>('/v1/boxes', {
      user: 'eve',
      name: 'source',
      env: { FROM: 'box' },
    });
    await shell(gateway, source.id, 'mkdir -p ~/lib && echo kept > ~/lib/x && ln -s ~/lib/x link');
    const { log } = await build(gateway, 'copy', { from: { box: 'eve:source' }, commands: ['echo more > more'] });
    expect(log.at(-1)).toMatchObject({ state: 'ready' });
    await gateway.call(`/v1/boxes/${source.id}`, { method: 'DELETE' });
    const boxes = await Promise.all([create('copy'), create('copy')]);
    for (const { id } of boxes) expect(await shell(gateway, id, 'cat link more; echo $FROM')).toBe('kept\nmore\nbox\n');
    const run = await gateway.post('/v1/run', { template: 'copy', code: 'open("link").read()' });
    expect(run.body).toMatchObject({ status: 'ok', text: "'kept\\n'" });
    expect((await gateway.call('/v1/templates/copy', { method: 'DELETE' })).status).toBe(204);
    expect((await gateway.post('/v1/boxes', { template: 'copy' })).status).toBe(400);
    expect(await shell(gateway, boxes[0]?.id ?? '', 'cat more')).toBe('more\n');
  });

  testOnce(
    'boxes of a template begin with the variables of a box that can be kept, and its log names the others',
    async () => {
      const { body: source } = await gateway.post<Box>('/v1/boxes', {});
      const defined = await gateway.run(
        source.id,
        `import json, numpy as np, pandas as pd
table = pd.DataFrame({"a": [1, 2]})
rate = 2
def scaled(x): return x * rate
double = lambda x: 2 * x
notes = open("notes.txt", "w")
class Loud:
    def __reduce__(self): return exec, ("print('loud'); import os; os._exit(1)",)
loud = Loud()`,
      );
      expect(defined.status).toBe('ok');
      const { log } = await build(gateway, 'begun', { from: { box: source.id, variables: true }, warm: 1 });
      expect(log.at(-1)).toMatchObject({ state: 'ready' });
      const output = log.map((event) => (event.type === 'output' ? event.text : '')).join('');
      expect(output).toMatch(/^The variable notes is not kept: TypeError: it is an open file$/m);
      expect(output).toMatch(/^The variable loud is not kept: .+ends its process$/m);
      expect(output).toMatch(/^8 variables are kept\.$/m);
      expect(output).not.toContain('\nloud');
      // The box itself has not changed, and one that is made from its files alone has no variables.
      expect((await gateway.run(source.id, 'scaled(21), notes.closed, loud.__class__.__name__')).text).toBe(
        "(42, False, 'Loud')",
      );
      await build(gateway, 'plain', { from: { box: source.id } });
      const code = 'rate = 4; scaled(1), double(4), int(table.a.sum()), json.dumps(np.pi > 3)';
      const expected = "(4, 8, 3, 'true')";
      const [first, derived] = [
        await create('begun'),
        await build(gateway, 'derived', { from: { template: 'begun' } }),
      ];
      expect(await gateway.run(first.id, code)).toMatchObject({ status: 'ok', executionCount: 1, text: expected });
      expect(derived.log.at(-1)).toMatchObject({ state: 'ready' });
      const box = await eventually(async () => {
        const made = await create('begun');
        if (made.startup?.kind === 'warm') return made;
        await gateway.call(`/v1/boxes/${made.id}`, { method: 'DELETE' });
        return undefined;
      });
      expect((await gateway.run(box.id, code)).text).toBe(expected);
      for (const [template, text] of [
        ['derived', expected],
        ['plain', null],
      ] as const)
        expect((await gateway.post<{ text: string | null }>('/v1/run', { template, code })).body.text).toBe(text);
      await gateway.post(`/v1/boxes/${source.id}/hibernate`, {});
      const late = await put<Problem>(gateway, 'begun', { from: { box: source.id, variables: true } });
      expect([late.status, late.body.errors?.[0]?.pointer]).toEqual([400, '/from/variables']);
      await gateway.call('/v1/templates/begun', { method: 'DELETE' });
    },
  );

  testOnce(
    'a build that fails or takes too long reports its cause and its log, and leaves the last version',
    async () => {
      await build(gateway, 'steady', { commands: ['echo good > state'] });
      const failed = await build(gateway, 'steady', { commands: ['echo oops >&2; exit 3'] });
      expect(failed.log.at(-1)).toMatchObject({ state: 'failed', cause: expect.stringContaining('exit code 3') });
      expect(failed.log).toContainEqual(expect.objectContaining({ type: 'output', text: 'oops\n' }));
      const slow = await build(gateway, 'steady', { buildSeconds: 3, commands: ['sleep 60'] });
      expect(slow.log.at(-1)).toMatchObject({ state: 'failed', cause: 'The build took longer than 3 s.' });
      const full = await build(gateway, 'steady', {
        limits: { diskMb: 16 },
        commands: ['head -c 64M /dev/zero > big'],
      });
      expect(full.log.at(-1)).toMatchObject({ state: 'failed' });
      const box = await create('steady');
      expect(await shell(gateway, box.id, 'cat state')).toBe('good\n');
      const loud = await build(gateway, 'steady', { commands: ['yes | head -c 3000000'] });
      expect(loud.log.at(-1)).toMatchObject({ state: 'ready' });
      const text = loud.log.map((event) => (event.type === 'output' ? event.text : '')).join('');
      expect(text.length).toBeLessThan(1_100_000);
      expect(text).toContain('The rest of the output is left out');
    },
  );

  testOnce('deleting a template ends its build, and a tenant cannot pile up builds by it', async () => {
    const { body: version } = await put(gateway, 'ended', { commands: ['sleep 600'] });
    await eventually(async () => {
      const { items } = (await gateway.get<{ items: BuildEvent[] }>(`${at(version)}/log`)).body;
      return items.some((event) => event.type === 'step' && event.text.includes('sleep'));
    });
    const remove = (name: string) => gateway.call(`/v1/templates/${name}`, { method: 'DELETE' });
    expect((await remove('ended')).status).toBe(204);
    const ofBuilds = async () => {
      const { items } = (await gateway.get<{ items: Box[] }>('/v1/boxes')).body;
      return items.filter(({ metadata }) => 'codebox.build' in metadata).length;
    };
    await eventually(async () => (await ofBuilds()) === 0);
    const statuses = new Set<number>();
    for (let i = 0; i < 40 && !statuses.has(409); i++) {
      statuses.add((await put(gateway, 'ended', { commands: ['sleep 600'] })).status);
      await remove('ended');
    }
    expect([...statuses]).toEqual([202, 409]);
    await eventually(async () => (await put(gateway, 'ended', {})).status === 202);
    expect((await events(gateway, { ...version, version: 1 })).at(-1)).toMatchObject({ state: 'ready' });
    await eventually(async () => (await ofBuilds()) === 0);
  });

  testOnce('a warm instance of a template gets the network of its boxes', async () => {
    const begun = await put(gateway, 'online', { network: 'internet', buildNetwork: 'none', warm: 1 });
    if (begun.status === 400) return;
    await eventually(async () => (await gateway.get<Template>('/v1/templates/online')).status === 200);
    const box = await eventually(async () => {
      const made = await create('online');
      if (made.startup?.kind === 'warm') return made;
      await gateway.call(`/v1/boxes/${made.id}`, { method: 'DELETE' });
      return undefined;
    });
    await gateway.call('/v1/templates/online', { method: 'DELETE' });
    expect(box).toMatchObject({ network: 'internet' });
    expect((await gateway.run(box.id, 'open("/proc/net/dev").read().count(":") > 1')).text).toBe('True');
  });

  testOnce(
    'a template is of its tenant alone, within its quotas, and has a name and settings that are allowed',
    async () => {
      await build(gateway, 'secret', { env: { PASSWORD: 'hidden' } });
      const authorization = `Bearer ${(await makeTenant(gateway)).key}`;
      const foreign = await gateway.post<Problem>('/v1/boxes', { template: 'secret' }, { authorization });
      expect(foreign.body).toMatchObject({ status: 400, errors: [{ pointer: '/template' }] });
      for (const path of [
        '/v1/templates/secret',
        '/v1/templates/secret/versions',
        '/v1/templates/secret/versions/1/log',
      ])
        expect((await gateway.call(path, { headers: { authorization } })).status).toBe(404);
      const removed = await gateway.call('/v1/templates/secret', { method: 'DELETE', headers: { authorization } });
      expect(removed.status).toBe(404);
      const from = { box: (await gateway.createBox()).id };
      const refused: [string, unknown, number, string | undefined][] = [
        ['python', {}, 409, undefined],
        ['Own', {}, 400, '/path/template'],
        ['x', { from: { template: 'none' } }, 400, '/from/template'],
        ['x', { from: { box: 'box-a' } }, 400, '/from/box'],
        ['x', { limits: { memoryMb: 999_999 } }, 400, '/limits/memoryMb'],
        ['x', { files: [{ path: 'a', url: 'https://example.com' }] }, 400, '/files/0/url'],
        ['x', { from: { box: 'x', template: 'python' } }, 400, '/from'],
        ['x', { from: { template: 'python', variables: true } }, 400, '/from/variables'],
        // Not supported.
        ['x', { packages: { apt: ['git'] } }, 400, '/packages/apt'],
        ['x', { placement: {} }, 400, '/placement'],
      ];
      for (const [name, body, status, pointer] of refused) {
        const answer = await put<Problem>(gateway, name, body);
        expect([name, answer.status, answer.body.errors?.[0]?.pointer]).toEqual([name, status, pointer]);
      }
      const stolen = await put<Problem>(gateway, 'x', { from }, { authorization });
      expect(stolen.body).toMatchObject({ status: 400, errors: [{ pointer: '/from/box' }] });
      const { key, admin, tenant } = await makeTenant(gateway, { boxes: 1, templates: 1 });
      const limited = { authorization: `Bearer ${key}` };
      const quotaOf = async (name: string, body: unknown) =>
        (await put<Problem>(gateway, name, body, limited)).body.quota?.name;
      expect(await quotaOf('one', { warm: 2 })).toBe('boxes');
      expect(await quotaOf('one', { warm: 1, buildSeconds: 1 })).toBeUndefined();
      expect(await quotaOf('two', {})).toBe('templates');
      const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
      expect(await store.templates.findVersion(tenant.id, 'one', 1)).toMatchObject({ number: 1 });
      await admin.tenants.delete(tenant.id);
      expect(await store.templates.findVersion(tenant.id, 'one', 1)).toBeUndefined();
      await store.close();
      const { key: barred } = await makeTenant(gateway, { templates: 0 });
      const refusal = await put<Problem>(gateway, 'one', {}, { authorization: `Bearer ${barred}` });
      expect(refusal.body).toMatchObject({ code: 'quota_exceeded', quota: { name: 'templates', limit: 0, used: 0 } });
    },
  );
});

describe.each(anyDriver)('builds on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_SWEEP_SECONDS: '60' });
  });
  afterAll(() => gateway?.dispose());

  test('a keyed build whose gateway died before it responded is not begun twice', async () => {
    const key = { 'idempotency-key': 'build-once' };
    expect((await put(gateway, 'keyed', {}, key)).status).toBe(202);
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    const left =
      "update idempotency_keys set status = null, body = null, gateway_id = 'gtw-dead' where key = 'build-once'";
    expect((await database.query(left)).rowCount).toBe(1);
    await database.end();
    const again = await put<Problem>(gateway, 'keyed', {}, key);
    expect(again).toMatchObject({ status: 409, body: { code: 'conflict', reason: 'effect_unknown' } });
    const { body } = await gateway.get<{ items: TemplateVersion[] }>('/v1/templates/keyed/versions');
    expect(body.items).toHaveLength(1);
  });

  test('a box whose files were replaced before it had them is refused for now', async () => {
    const { log } = await build(gateway, 'replaced', { files: [{ path: 'a.txt', text: 'a' }] });
    expect(log.at(-1)).toMatchObject({ state: 'ready' });
    await rm(join(gateway.dataDir, 'blobs'), { recursive: true });
    const refused = await gateway.post<Problem>('/v1/boxes', { template: 'replaced' });
    expect(refused).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

describe.each(anyDriver)('builds at two gateways on the %s driver', (driver) => {
  test('a build whose gateway is killed is begun again by the other one', async () => {
    const [a, b] = (await startGateways(driver, 2, { CODEBOX_SWEEP_SECONDS: '1' })) as [GatewayProcess, GatewayProcess];
    try {
      const { body: version } = await put(a, 'taken', { commands: ['echo one >> runs; sleep 2', 'cat runs'] });
      await eventually(async () => {
        const { items } = (await b.get<{ items: BuildEvent[] }>(`${at(version)}/log`)).body;
        return items.some((event) => event.type === 'step' && event.text.includes('sleep'));
      });
      await a.kill('SIGKILL');
      const log = await events(b, version);
      expect(log.at(-1)).toMatchObject({ type: 'done', state: 'ready' });
      expect(log.filter((event) => event.type === 'step' && event.text.includes('sleep'))).toHaveLength(2);
      // The second attempt was made in a fresh box, and the box of the first is gone.
      expect(log.filter((event) => event.type === 'output').map(({ text }) => text)).toEqual(['one\n']);
      await eventually(async () => (await b.get<{ items: Box[] }>('/v1/boxes')).body.items.length === 0);
    } finally {
      await a.restart();
      await a.dispose();
    }
  });
});
