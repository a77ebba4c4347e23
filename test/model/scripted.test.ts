import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem, Template } from '#contract';
import { readConfig } from '../../services/gateway/config.ts';
import { createGateway, type Gateway } from '../../services/gateway/gateway.ts';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { newId } from '../../services/postgres/id.ts';
import { databaseUrl, eventually } from '../api/harness.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';
import { createStandIns } from './stand-in.ts';

const stack = new AsyncDisposableStack();
let folder: string;
let gateway: Gateway;
let world: ReturnType<typeof createStandIns>;
let headers: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(quickFolder, 'codebox-scripted-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await placeDatabase(folder);
  world = createStandIns(folder, () => 0, {
    freeze: false,
    limits: { cpus: 'instance', memoryMb: 'instance', diskMb: 'instance', pids: 'node' },
    bind: { limits: [], networks: ['none', 'internet'], volumes: false },
  });
  const templates = join(folder, 'templates.yaml');
  await writeFile(templates, 'python: {}\nlearn: { gpus: 1 }\nshare: { gpus: { kind: nvidia.com/mig-1g.5gb } }\n');
  const config = readConfig({
    CODEBOX_TEMPLATES: templates,
    CODEBOX_DATA_DIR: folder,
    CODEBOX_PORT: '0',
    CODEBOX_SWEEP_SECONDS: '0.1',
    CODEBOX_START_SECONDS: '1',
    CODEBOX_WARM_BOXES: '0',
  });
  gateway = stack.use(await createGateway(config, { driver: world.driver, log: pino({ level: 'silent' }) }));
  await gateway.start();
  const { key, id, hash } = makeKey();
  await gateway.store.keys.addTenant('ten-scripted', 'scripted');
  await gateway.store.keys.add({ id, tenantId: 'ten-scripted', hash, name: 'scripted' });
  headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
});
afterAll(() => stack.disposeAsync());
afterEach(() => {
  const script = {
    made: { state: 'running' },
    isSilent: false,
    memoryMb: 100 * 1024,
    refusal: undefined,
    cpuMs: 0,
    busyMs: 0,
    usage: 'known',
    losesFiles: false,
    failingBinds: 0,
    revision: 'stand-in',
    languages: ['python'],
  };
  Object.assign(world.script, script);
});

const send = async <T>(method: string, path: string, body?: unknown, { app }: Pick<Gateway, 'app'> = gateway) => {
  const response = await app.request(path, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    retryAfter: Number(response.headers.get('retry-after')),
    body: (text === '' ? {} : JSON.parse(text)) as T,
  };
};
const create = (body: unknown = {}) => send<Box & Problem>('POST', '/v1/boxes', body);
const newestFailed = async () => (await send<{ items: Box[] }>('GET', '/v1/boxes?state=failed&limit=1')).body.items[0];
const instanceOf = async (box: string) => (await gateway.store.instances.of(box))[0]?.id ?? '';
const run = (box: string) => send<Problem>('POST', `/v1/boxes/${box}/executions`, { code: '1' });

test('an instance that stays pending times out, and nothing of it is left', async () => {
  world.script.made = { state: 'pending' };
  const { status, body } = await create();
  expect([status, body.code]).toEqual([503, 'unavailable']);
  expect(await newestFailed()).toMatchObject({ state: 'failed', cause: { code: 'start_failed' } });
  expect(await world.driver.list(AbortSignal.timeout(1000))).toEqual([]);
});

test('a box whose server takes its files and never responds fails in time', async () => {
  world.script.losesFiles = true;
  const { status, body } = await create({ files: [{ path: 'large.txt', text: 'x'.repeat(300 * 1024) }] });
  expect([status, body.code]).toEqual([503, 'unavailable']);
  expect(await newestFailed()).toMatchObject({ state: 'failed', cause: { code: 'start_failed' } });
  expect(await world.driver.list(AbortSignal.timeout(1000))).toEqual([]);
});

test.each([
  ['image', 'image_unavailable', 'accepted'],
  ['image', 'image_unavailable', 'refused'],
  ['gpu', 'gpu_unavailable', 'refused'],
  ['unschedulable', 'unschedulable', 'accepted'],
] as const)('an instance that will never run (%s) fails its box at once with that cause', async (code, cause, how) => {
  const why = { code, detail: 'the words of the backend' };
  if (how === 'accepted') world.script.made = { state: 'pending', why };
  else world.script.refusal = why;
  const { status, body, retryAfter } = await create();
  expect([status, body.code]).toEqual([503, 'unavailable']);
  expect(JSON.stringify(body)).not.toContain('the words of the backend');
  // Only the operator can provide an image or a GPU.
  expect([body.reason, retryAfter > 0]).toEqual(code === 'unschedulable' ? [undefined, true] : [cause, false]);
  expect(await newestFailed()).toMatchObject({ state: 'failed', cause: { code: cause } });
});

test('a driver without volumes refuses them, and says why', async () => {
  const detail = expect.stringContaining('because these boxes have no files');
  const refused = { status: 400, code: 'invalid_request' };
  const made = await send<Problem>('POST', '/v1/volumes', { name: 'data' });
  expect(made.body).toMatchObject({ ...refused, errors: [{ pointer: '/name', detail }] });
  const { body } = await create({ volumes: [{ volume: 'data' }] });
  expect(body).toMatchObject({ ...refused, errors: [{ pointer: '/volumes', detail }] });
});

test('an instance that the backend will never accept is nothing to try again', async () => {
  world.script.refusal = { code: 'refused', detail: 'the words of the backend' };
  const { status, body, retryAfter } = await create();
  expect([status, body.code, body.reason, retryAfter]).toEqual([503, 'unavailable', 'box_refused', 0]);
  expect(JSON.stringify(body)).not.toContain('the words of the backend');
  expect(await newestFailed()).toMatchObject({ state: 'failed', cause: { code: 'start_failed' } });
});

test('a box that waits for room gets it once the host has more memory, and may be as large as that allows', async () => {
  const patience = { timeout: 30_000 };
  const ceilingMb = async () => {
    const text = await (await gateway.app.request('/metrics')).text();
    return Number(/^codebox_memory_ceiling_bytes (\d+)$/m.exec(text)?.[1]) / 1024 ** 2;
  };
  await create();
  world.script.memoryMb = 1024;
  world.hint();
  await expect.poll(ceilingMb, patience).toBe(1024);
  expect((await create({ limits: { memoryMb: 2048 } })).body.errors?.[0]?.detail).toBe('must be at most 1024');
  const waiting = create();
  await expect.poll(() => gateway.store.waiting.count(world.driver.site), patience).toBe(1);
  world.script.memoryMb = 100 * 1024;
  world.hint();
  expect((await waiting).status).toBe(201);
  expect((await create({ limits: { memoryMb: 2048 } })).status).toBe(201);
});

test.each(['refused', 'silent'] as const)(
  'usage that is %s does not prevent creating, using or deleting a box',
  async (usage) => {
    world.script.usage = usage;
    const made = await create({ limits: { cpuSeconds: 60 } });
    expect(made.status).toBe(201);
    expect((await run(made.body.id)).status).toBe(200);
    expect(await send('GET', `/v1/boxes/${made.body.id}/stats`)).toMatchObject({ status: 503 });
    expect((await send('DELETE', `/v1/boxes/${made.body.id}`)).status).toBe(204);
  },
);

test('a box whose host is unreachable stays ready and keeps serving, and is not declared lost', async () => {
  const { body: box } = await create();
  world.script.isSilent = true;
  world.hint();
  world.hint(await instanceOf(box.id));
  expect((await run(box.id)).status).toBe(200);
  expect((await create()).status).toBe(503);
  expect((await send('GET', '/readyz')).status).toBe(503);
  expect((await send<Box>('GET', `/v1/boxes/${box.id}`)).body.state).toBe('ready');
});

test.each([
  ['oom', 'memory_limit'],
  ['evicted', 'evicted'],
  ['preempted', 'preempted'],
  ['node_lost', 'node_lost'],
  ['exit', 'instance_lost'],
] as const)(
  'a box whose instance has ended (%s) is lost with its cause once the driver reports it',
  async (code, cause) => {
    const { body: box } = await create();
    world.end(await instanceOf(box.id), { code, detail: '' });
    const lost = await eventually(async () => {
      const { body } = await send<Box>('GET', `/v1/boxes/${box.id}`);
      return body.state === 'lost' && body;
    });
    expect(lost.cause?.code).toBe(cause);
  },
);

test('options that the driver does not support are a 400 that points at the field, and so is a pause', async () => {
  for (const [body, pointer] of [
    [{ onIdle: 'pause' }, '/onIdle'],
    [{ limits: { pids: 33 } }, '/limits/pids'],
  ] as const) {
    const refused = await create(body);
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, pointer]);
  }
  const { body: box } = await create();
  const changed = await send<Problem>('PATCH', `/v1/boxes/${box.id}`, { onIdle: 'pause' });
  expect([changed.status, changed.body.errors?.[0]?.pointer]).toEqual([400, '/onIdle']);
  expect((await send('POST', `/v1/boxes/${box.id}/pause`)).status).toBe(400);
  expect((await run(box.id)).status).toBe(200);
});

test('a change of the network that fails is undone, also one whose gateway has died', async () => {
  const { body: box } = await create();
  const instance = await instanceOf(box.id);
  const path = `/v1/boxes/${box.id}`;
  world.script.failingBinds = 1;
  expect((await send('PATCH', path, { network: 'internet' })).status).toBe(503);
  expect(world.networks.get(instance)).toBe('none');
  expect((await send<Box>('GET', path)).body.network).toBe('none');
  expect(await send('PATCH', path, { network: 'internet' })).toMatchObject({
    status: 200,
    body: { network: 'internet' },
  });
  expect(world.networks.get(instance)).toBe('internet');

  await gateway.store.tasks.begin(box.id, 'ready', 'connect', 'task-of-the-dead');
  expect((await send<Problem>('PATCH', path, { network: 'none' })).body.reason).toBe('box_changing');
  expect((await run(box.id)).status).toBe(200);
  world.networks.set(instance, 'none');
  const database = new pg.Client({ connectionString: await databaseUrl(folder) });
  await database.connect();
  await database.query("update boxes set task_until = now() - interval '1 second' where id = $1", [box.id]);
  await database.end();
  await expect.poll(() => world.networks.get(instance)).toBe('internet');
  await expect.poll(async () => (await send('PATCH', path, { network: 'none' })).status).toBe(200);
});

test('a box whose usage is unknown counts the last recorded CPU time', async () => {
  const { body: box } = await create({ limits: { cpuSeconds: 2 } });
  const instance = await instanceOf(box.id);
  world.script.cpuMs = 3000;
  await eventually(async () => (await gateway.store.usage.lastCpuMs(instance)) === 3000);
  world.script.usage = 'refused';
  expect((await run(box.id)).body.code).toBe('cpu_limit');
});

test('runs of a box that was frozen by a gateway that died before it recorded their ends are lost with the cause', async () => {
  const { body: box } = await create();
  const execution = newId('exe');
  const database = new pg.Client({ connectionString: await databaseUrl(folder) });
  await database.connect();
  await database.query("update boxes set state = 'paused' where id = $1", [box.id]);
  await database.query(
    "insert into executions (id, box_id, tenant_id, status, gateway_id) values ($1, $2, 'ten-scripted', 'running', 'gw-dead')",
    [execution, box.id],
  );
  // A request for it would resume the box.
  const read = async () =>
    (await database.query('select status, cause from executions where id = $1', [execution])).rows[0];
  await eventually(async () => (await read()).status !== 'running');
  expect(await read()).toMatchObject({ status: 'lost', cause: { code: 'cpu_limit' } });
  await database.query("update boxes set state = 'ready' where id = $1", [box.id]);
  await database.end();
});

test('a box past its CPU time has its runs stopped and keeps its files, and is ended if it goes on', async () => {
  const { body: box } = await create({ limits: { cpuSeconds: 2 } });
  const { stops } = world.seenBy(await instanceOf(box.id));
  world.script.cpuMs = 20_000;
  await eventually(async () => world.seenBy(await instanceOf(box.id)).stops > stops);
  const seen = world.seenBy(await instanceOf(box.id)).stops;
  await sleep(1000);
  expect(world.seenBy(await instanceOf(box.id)).stops).toBe(seen);
  expect((await send<Box>('GET', `/v1/boxes/${box.id}`)).body.state).toBe('ready');
  world.script.busyMs = 1000;
  const ended = await eventually(async () => {
    const { body } = await send<Box>('GET', `/v1/boxes/${box.id}`);
    return body.state === 'deleted' && body;
  });
  expect(ended.cause?.code).toBe('cpu_limit');
});

describe('the languages of a template', () => {
  const read = async (on?: Gateway) => {
    const { body } = await send<Template>('GET', '/v1/templates/python', undefined, on);
    return [body.language, body.languages];
  };
  const runOnce = (language: string) => send<Problem>('POST', '/v1/run', { code: '1', language });
  /** Changes the image of all templates to one that has these languages. */
  const renewImage = (revision: string, languages: string[]) => Object.assign(world.script, { revision, languages });
  const instances = () => world.driver.list(AbortSignal.timeout(1000));

  test('are those of its first box, for every gateway and after a restart, until its image changes', async () => {
    renewImage('first', ['sql', 'python']);
    expect(await read()).toEqual(['python', null]);
    expect((await create()).status).toBe(201);
    expect(await read()).toEqual(['python', ['python', 'sql']]);
    const config = readConfig({
      CODEBOX_DATA_DIR: folder,
      DATABASE_URL: await databaseUrl(folder),
      CODEBOX_MAX_BOXES: '100',
    });
    await using other = await createGateway(config, { driver: world.driver, log: pino({ level: 'silent' }) });
    await expect.poll(() => read(other)).toEqual(['python', ['python', 'sql']]);
    renewImage('second', ['python']);
    expect(await read()).toEqual(['python', null]);
    expect(await read(other)).toEqual(['python', null]);
  });

  test('refuse a box for another language once they are known, but not those of an older image', async () => {
    renewImage('third', ['python']);
    await create();
    world.script.refusal = { code: 'unschedulable', detail: '' };
    const refused = await runOnce('sql');
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, '/language']);
    expect(refused.body.errors?.[0]?.detail).toContain('it has python');
    world.script.refusal = undefined;
    renewImage('fourth', ['python', 'sql']);
    expect((await runOnce('sql')).status).toBe(200);
    expect(await read()).toEqual(['python', ['python', 'sql']]);
  });

  test('do not apply to a box that was made from an older image, which has its own', async () => {
    renewImage('fifth', ['python', 'sql']);
    const { body: older } = await create();
    renewImage('sixth', ['python']);
    await create();
    const path = `/v1/boxes/${older.id}/executions`;
    expect((await send('POST', path, { code: '1', language: 'sql' })).status).toBe(200);
    const refused = await send<Problem>('POST', path, { code: '1', language: 'r' });
    expect([refused.status, refused.body.errors?.[0]]).toEqual([
      400,
      { pointer: '/language', detail: 'is not a language of this box; it has python, sql' },
    ]);
  });

  test('that are unknown leave it to the new box to refuse one, and nothing of the box is left', async () => {
    renewImage('seventh', ['python']);
    const before = await instances();
    const refused = await runOnce('sql');
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, '/language']);
    expect(await instances()).toEqual(before);
  });
});

test('a box that exceeds the daily CPU time is ended by a driver that cannot freeze it', async () => {
  const { body: box } = await create();
  await gateway.store.tenants.update(
    'ten-scripted',
    { quotas: { cpuSecondsPerDay: 60 } },
    { actor: 'gateway', requestId: null },
  );
  world.script.busyMs = 60_000;
  const ended = await eventually(async () => {
    const { body } = await send<Box>('GET', `/v1/boxes/${box.id}`);
    return body.state === 'deleted' && body;
  });
  expect(ended.cause?.code).toBe('cpu_limit');
});

test('boxes have the GPUs of their template, which is refused where no box can have them', async () => {
  const { items } = (await send<{ items: Template[] }>('GET', '/v1/templates')).body;
  expect(Object.fromEntries(items.map(({ name, gpus }) => [name, gpus]))).toEqual({
    python: null,
    learn: { count: 1, kind: 'nvidia.com/gpu' },
    share: { count: 1, kind: 'nvidia.com/mig-1g.5gb' },
  });
  const { body: box } = await create({ template: 'learn' });
  expect(world.gpus.get(await instanceOf(box.id))).toEqual({ count: 1, kind: 'nvidia.com/gpu' });
  const why = 'has GPUs, which this deployment does not offer, because its host has whole GPUs only';
  const { status, body } = await create({ template: 'share' });
  expect([status, body.errors]).toEqual([400, [{ pointer: '/template', detail: why }]]);
  const built = await send<Problem>('PUT', '/v1/templates/own', { from: { template: 'share' } });
  expect([built.status, built.body.errors]).toEqual([400, [{ pointer: '/from/template', detail: why }]]);
});

test('a gateway does not start with a placement that its driver would ignore', async () => {
  const file = join(folder, 'placed.yaml');
  await writeFile(file, 'python: {}\nplaced: { placement: { runtimeClass: gvisor } }\n');
  const config = readConfig({ CODEBOX_DATA_DIR: folder, CODEBOX_TEMPLATES: file, CODEBOX_MAX_BOXES: '100' });
  const started = createGateway(config, { driver: world.driver, log: pino({ level: 'silent' }) });
  await expect(started).rejects.toThrow(/Template placed has a placement/);
});
