import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Store } from '../../services/gateway/store/store.ts';
import { newId } from '../../services/postgres/id.ts';
import { refusal } from '../api/harness.ts';
import { openTestStore } from './store-under-test.ts';

const [tenant, site, gatewayId] = ['one', 'here', 'gw_living'];
const limits = { cpus: 1, memoryMb: 512, diskMb: 256, pids: 100 };
const bounds = { templates: 100, builds: 100, warm: 5 };

let opened: Awaited<ReturnType<typeof openTestStore>>;
let store: Store;
let admin: pg.Pool;

beforeAll(async () => {
  opened = await openTestStore(gatewayId);
  ({ store, admin } = opened);
  await admin.query("insert into gateways (id, alive_until) values ($1, 'infinity')", [gatewayId]);
  await store.keys.addTenant(tenant, tenant);
});
afterAll(() => opened?.close());
beforeEach(async () => {
  for (const table of ['templates', 'quotas', 'usage', 'instances', 'pools']) await admin.query(`delete from ${table}`);
});

const begin = (name: string, { warm = 0, ...by }: { warm?: number; gatewayId?: string; site?: string } = {}) =>
  store.templates.begin(
    { template: newId('tpl'), version: newId('tv') },
    { tenant, name, gatewayId, site, ...by },
    {
      settings: { base: 'python', limits, network: 'none', idleSeconds: 60, maxLifetimeSeconds: 60, warm },
      build: 'sealed',
    },
    bounds,
  );
const succeed = (id: string) => store.builds.succeed(id, { box: newId('box'), blob: newId('task'), bytes: 1 });
const statesOf = async (name: string) =>
  (await store.templates.versions(tenant, name, { limit: 100 }))?.items.map(({ number, state }) => [number, state]);

test('of versions that are finished at the same time, the newest is ready', async () => {
  for (let i = 0; i < 10; i++) {
    const name = `race-${i}`;
    const rows = [await begin(name), await begin(name), await begin(name)];
    await Promise.all(rows.map(({ id }) => succeed(id)));
    expect(await statesOf(name)).toEqual([
      [3, 'ready'],
      [2, 'replaced'],
      [1, 'replaced'],
    ]);
  }
});

test('a build is taken over at its site, fails after three attempts, and a deliberate stop counts as none', async () => {
  const [here, there] = [
    await begin('here', { gatewayId: 'gw_dead' }),
    await begin('there', { gatewayId: 'gw_dead', site: 'there' }),
  ];
  expect(await store.builds.begin(here.id)).toBeUndefined();
  expect(await store.builds.takeOver(site, 3, 10)).toMatchObject([{ id: here.id, tenant }]);
  expect(await store.builds.mine('', 10)).toEqual([here.id]);
  expect(await store.builds.takeOver('there', 3, 10)).toMatchObject([{ id: there.id, tenant }]);
  const attempt = async () => {
    expect(await store.builds.begin(here.id)).toMatchObject({ tenant, name: 'here', number: 1, request: 'sealed' });
  };
  const die = () => admin.query("update template_versions set gateway_id = 'gw_dead' where id = $1", [here.id]);
  for (let i = 0; i < 4; i++) {
    await attempt();
    await store.builds.withdraw(here.id);
    await die();
    expect(await store.builds.takeOver(site, 3, 10)).toHaveLength(1);
  }
  for (let i = 0; i < 3; i++) {
    await attempt();
    await die();
    expect(await store.builds.takeOver(site, 3, 10)).toHaveLength(i < 2 ? 1 : 0);
  }
  expect(await store.templates.findVersion(tenant, 'here', 1)).toMatchObject({
    state: 'failed',
    cause: 'Every gateway that worked on this build stopped before finishing it.',
  });
});

test('the last 20 versions are kept, and rows are read without what is to be built', async () => {
  for (let i = 0; i < 22; i++) await store.builds.fail((await begin('often')).id, 'a reason');
  const versions = (await statesOf('often'))?.map(([number]) => number);
  expect([versions?.length, versions?.at(-1)]).toEqual([20, 3]);
  expect(await begin('often')).not.toHaveProperty('build');
  expect(await store.templates.findVersion(tenant, 'often', 23)).not.toHaveProperty('build');
});

test('a quota counts each template and its warm instances once, and does not hinder new versions', async () => {
  await succeed((await begin('a', { warm: 3 })).id);
  await begin('a', { warm: 3 });
  // Without a quota of boxes the bound of the deployment counts.
  await begin('b', { warm: 2 });
  expect(await refusal(begin('c', { warm: 1 }))).toMatchObject({
    code: 'quota_exceeded',
    quota: { name: 'boxes', limit: 5, used: 5 },
  });
  await admin.query('insert into quotas (tenant_id, templates, boxes) values ($1, 1, 20)', [tenant]);
  expect(await refusal(begin('c'))).toMatchObject({ quota: { name: 'templates', limit: 1, used: 2 } });
  expect(await begin('a', { warm: 18 })).toMatchObject({ number: 3 });
});

test('the CPU time of warm instances counts for the tenant of their template, which keeps none when it has used up its quota', async () => {
  const { id, templateId } = await begin('hot', { warm: 1 });
  await succeed(id);
  const add = async (template: string) => {
    const instance = newId('i');
    await admin.query(
      `insert into instances (id, driver, template, generation, state, metered_at)
       values ($1, $2, $3, 'now', 'warm', now() - interval '1 hour')`,
      [instance, site, template],
    );
    return instance;
  };
  const [own, configured] = [await add(templateId), await add('python')];
  expect(await store.usage.unmetered(site, '', 10)).toEqual([own]);
  const measure = (cpuMs: number) =>
    store.usage.meter([own, configured].map((instance) => ({ instance, cpuMs, peakMemoryBytes: 7 })));
  await measure(1500);
  await measure(4000);
  const { items } = await store.usage.list(tenant, { limit: 10 });
  expect(items).toMatchObject([{ userId: '', cpuMs: 4000, boxMs: 0, peakMemoryBytes: 0 }]);
  const warm = async () => (await store.templates.warm('', 10)).map(({ name }) => name);
  await admin.query('insert into quotas (tenant_id, cpu_seconds_per_day) values ($1, 5)', [tenant]);
  expect(await warm()).toEqual(['hot']);
  await measure(5000);
  expect(await warm()).toEqual([]);
});

test('pools are filled in order: those of the configuration, then the emptiest, and none that is paused', async () => {
  const names = ['a', 'b', 'c', 'python'];
  const plans = names.map((template, at) => ({ template, generation: 'now', size: at + 1 }));
  await store.pools.publish(site, names, plans);
  const most = { instances: 100, memoryMb: 100_000 };
  for (const template of ['c', 'python']) {
    const pool = { template, generation: 'now', memoryMb: 512 };
    expect(await store.pools.reserve(site, pool, [newId('i')], most)).toHaveLength(1);
  }
  const order = async (paused: string[]) =>
    (await store.pools.belowTarget(site, ['python'], paused)).map(({ template }) => template);
  expect((await order([])).at(0)).toBe('python');
  expect((await order([])).at(-1)).toBe('c');
  expect(await order(['a', 'python'])).toEqual(['b', 'c']);
});

test('a warm instance for a template of a tenant is replaced after a day, and one of a configured template is not', async () => {
  const { templateId } = await begin('old', { warm: 1 });
  const plans = [templateId, 'python'].map((template) => ({ template, generation: 'now', size: 1 }));
  await store.pools.publish(site, [templateId, 'python'], plans);
  for (const template of [templateId, 'python'])
    await admin.query(
      `insert into instances (id, driver, template, generation, state, created_at)
       values ($1, $2, $3, 'now', 'warm', now() - interval '25 hours')`,
      [newId('i'), site, template],
    );
  expect((await store.pools.drain(site, 10, 60_000)).map(({ template }) => template)).toEqual([templateId]);
});
