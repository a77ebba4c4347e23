import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import { readConfig } from '../../services/gateway/config.ts';
import { createGateway, type Gateway } from '../../services/gateway/gateway.ts';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { eventually } from '../api/harness.ts';
import { placeDatabase } from '../prepared-database.ts';
import { createStandIns } from './stand-in.ts';

const stack = new AsyncDisposableStack();
let gateway: Gateway;
let world: ReturnType<typeof createStandIns>;
let headers: Record<string, string>;

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-scripted-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await placeDatabase(folder);
  world = createStandIns(folder, () => 0, {
    freeze: false,
    limits: { cpus: 'instance', memoryMb: 'instance', diskMb: 'instance', pids: 'node' },
  });
  const config = readConfig({
    CODEBOX_DATA_DIR: folder,
    CODEBOX_PORT: '0',
    CODEBOX_MAX_BOXES: '100',
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
  Object.assign(world.script, { made: { state: 'running' }, isSilent: false, usage: 'known' });
});

const ask = async <T>(method: string, path: string, body?: unknown) => {
  const answer = await gateway.app.request(path, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    retryAfter: Number(answer.headers.get('retry-after')),
    body: (text === '' ? {} : JSON.parse(text)) as T,
  };
};
const create = (body: unknown = {}) => ask<Box & Problem>('POST', '/v1/boxes', body);
const newestFailed = async () => (await ask<{ items: Box[] }>('GET', '/v1/boxes?state=failed&limit=1')).body.items[0];
const instanceOf = async (box: string) => (await gateway.store.instances.of(box))[0]?.id ?? '';
const run = (box: string) => ask<Problem>('POST', `/v1/boxes/${box}/executions`, { code: '1' });

test('an instance that stays pending is given up in time, and nothing of it is left', async () => {
  world.script.made = { state: 'pending' };
  const { status, body } = await create();
  expect([status, body.code]).toEqual([503, 'unavailable']);
  expect(await newestFailed()).toMatchObject({ state: 'failed', cause: { code: 'start_failed' } });
  expect(await world.driver.list(AbortSignal.timeout(1000))).toEqual([]);
});

test.each([
  ['image', 'image_unavailable'],
  ['unschedulable', 'unschedulable'],
] as const)('an instance that will never run (%s) fails its box at once, and the box says why', async (code, cause) => {
  world.script.made = { state: 'pending', why: { code, detail: 'the words of the backend' } };
  const { status, body, retryAfter } = await create();
  expect([status, body.code]).toEqual([503, 'unavailable']);
  expect(JSON.stringify(body)).not.toContain('the words of the backend');
  expect(retryAfter).toBeGreaterThan(0);
  expect(await newestFailed()).toMatchObject({ state: 'failed', cause: { code: cause } });
});

test.each(['refused', 'silent'] as const)(
  'usage that is %s keeps nobody from a box, its budget or its end',
  async (usage) => {
    world.script.usage = usage;
    const made = await create({ limits: { cpuSeconds: 60 } });
    expect(made.status).toBe(201);
    expect((await run(made.body.id)).status).toBe(200);
    expect(await ask('GET', `/v1/boxes/${made.body.id}/stats`)).toMatchObject({ status: 503 });
    expect((await ask('DELETE', `/v1/boxes/${made.body.id}`)).status).toBe(204);
  },
);

test('a box whose host nobody can ask answers 503 or serves on, and is never lost for that', async () => {
  const { body: box } = await create();
  world.script.isSilent = true;
  world.hint();
  world.hint(await instanceOf(box.id));
  expect((await run(box.id)).status).toBe(200);
  expect((await create()).status).toBe(503);
  expect((await ask('GET', '/readyz')).status).toBe(503);
  expect((await ask<Box>('GET', `/v1/boxes/${box.id}`)).body.state).toBe('ready');
});

test.each([
  ['oom', 'memory_limit'],
  ['evicted', 'evicted'],
  ['preempted', 'preempted'],
  ['node_lost', 'node_lost'],
  ['exit', 'instance_lost'],
] as const)(
  'a box whose instance ended (%s) is lost with that cause as soon as the driver hints at it',
  async (code, cause) => {
    const { body: box } = await create();
    world.end(await instanceOf(box.id), { code, detail: '' });
    const lost = await eventually(async () => {
      const { body } = await ask<Box>('GET', `/v1/boxes/${box.id}`);
      return body.state === 'lost' && body;
    });
    expect(lost.cause?.code).toBe(cause);
  },
);

test('what the driver cannot do is refused with the field, and pausing with 400', async () => {
  for (const [body, pointer] of [
    [{ onIdle: 'pause' }, '/onIdle'],
    [{ limits: { pids: 33 } }, '/limits/pids'],
  ] as const) {
    const refused = await create(body);
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, pointer]);
  }
  const { body: box } = await create();
  const changed = await ask<Problem>('PATCH', `/v1/boxes/${box.id}`, { onIdle: 'pause' });
  expect([changed.status, changed.body.errors?.[0]?.pointer]).toEqual([400, '/onIdle']);
  expect((await ask('POST', `/v1/boxes/${box.id}/pause`)).status).toBe(400);
  expect((await run(box.id)).status).toBe(200);
});
