import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBoxConnections } from '../../services/gateway/box-server/connections.ts';
import { createReuse } from '../../services/gateway/boxes/creation/reuse.ts';
import { createLeases, RollbackFailed } from '../../services/gateway/boxes/rest/leases.ts';
import { createInstances } from '../../services/gateway/boxes/supply/instances.ts';
import { createLaunch } from '../../services/gateway/boxes/supply/launch.ts';
import { createPool as createWarmPool } from '../../services/gateway/boxes/supply/pool.ts';
import { createStartSlots } from '../../services/gateway/boxes/supply/start-slots.ts';
import { createStarts } from '../../services/gateway/boxes/supply/starts.ts';
import { createTemplateLanguages } from '../../services/gateway/boxes/supply/template-languages.ts';
import { readTemplates } from '../../services/gateway/boxes/supply/templates.ts';
import { createHeartbeat } from '../../services/gateway/boxes/upkeep/heartbeat.ts';
import { createPurges } from '../../services/gateway/boxes/upkeep/purges.ts';
import type { Store } from '../../services/gateway/store/store.ts';
import { newId } from '../../services/postgres/id.ts';
import { createPool } from '../../services/postgres/pool.ts';
import { createBackground } from '../../services/waiting/background.ts';
import { createNotice } from '../../services/waiting/notice.ts';
import { eventually } from '../api/harness.ts';
import { createStandIns } from '../model/stand-in.ts';
import { newBox } from './new-box.ts';
import { most, openTestPool, pool, site } from './store-under-test.ts';

const startMs = 60_000;
/** A gateway that stays alive for all tests. */
const gateway = 'gw_living';

let opened: Awaited<ReturnType<typeof openTestPool>>;
let folder: string;
let store: Store;
let admin: pg.Pool;

beforeAll(async () => {
  opened = await openTestPool(gateway);
  ({ folder, store, admin } = opened);
});
afterAll(() => opened?.close());

const states = async (ids: string[]) => {
  const rows = await store.instances.after(site, '', 1000);
  return ids.map((id) => rows.find((row) => row.id === id)?.state);
};

/** Creates a box that waits for its instance. */
const beginBox = async () => {
  const begun = await store.allocation.claim(
    newBox('one'),
    { site, template: pool.template, generation: null, memoryMb: pool.memoryMb },
    most,
  );
  const instance = begun && (await store.allocation.reserve(begun.box, { id: newId('i'), site }, most));
  if (!begun || !instance) throw new Error('the box was not written');
  return { box: begun.box.id, instance: instance.id };
};

test('a pool instance that takes too long to start is given up and cannot become warm, although its gateway lives', async () => {
  const [young, old] = [await opened.reserve(), await opened.reserve()];
  await admin.query("update instances set created_at = created_at - interval '1 hour' where id = $1", [old]);
  expect((await store.pools.drain(site, 10, startMs)).map(({ id }) => id)).toEqual([old]);
  expect(await store.pools.admit(old, 'unix:/old')).toBe(false);
  expect(await store.pools.admit(young, 'unix:/young')).toBe(true);
  expect(await states([young, old])).toEqual(['warm', 'destroying']);
});

test('a pool whose new image the database refuses is renewed by the next sweep', async () => {
  const connections = createBoxConnections({ secret: 'secret' });
  const [background, room] = [createBackground(() => {}), createNotice()];
  const meter = { begin: async () => {}, count: async () => {} };
  let [revision, isAway] = ['first', false];
  const driver = { ...createStandIns(folder, () => 0).driver, site: 'harbour', revision: async () => revision };
  const languages = createTemplateLanguages({ driver, store: store.templateLanguages, background });
  const renew: typeof store.pools.renew = (...args) =>
    isAway ? Promise.reject(new Error('The database is away.')) : store.pools.renew(...args);
  const pools = createWarmPool({
    driver,
    pools: { ...store.pools, renew },
    connections,
    background,
    templates: readTemplates({ templatesFile: undefined, boxImage: 'image', fullImage: undefined, warmBoxes: 1 }),
    built: async () => [],
    ceiling: { instances: 0, memoryMb: 0 },
    starts: createStarts({ slots: createStartSlots({ place: folder, count: 1 }), startMs }),
    launch: createLaunch({ driver, connections, languages, fill: async () => {} }),
    givenUpMs: startMs,
    startsAtOnce: 1,
    instances: createInstances({ driver, instances: store.instances, connections, meter, room }),
    room,
    onBreaker: () => {},
  });
  const generations = async () => (await store.pools.belowTarget('harbour')).map(({ generation }) => generation);
  await pools.start();
  const first = await generations();
  [revision, isAway] = ['second', true];
  await pools.tend({ pooled: false, builtPools: false });
  expect([first.length, await generations()]).toEqual([1, first]);
  isAway = false;
  await pools.tend({ pooled: false, builtPools: false });
  expect(await generations()).not.toEqual(first);
  pools.stop();
  await background.drain(10_000);
});

test('the instance of a box is given up when the box no longer waits for it', async () => {
  const [ended, waiting, ready, resting, restoring] = [
    await beginBox(),
    await beginBox(),
    await beginBox(),
    await beginBox(),
    await beginBox(),
  ];
  const put = (box: string, state: string, task: string | null = null) =>
    admin.query(
      "update boxes set state = $2, task = $3, ended_at = case $2 when 'failed' then now() end where id = $1",
      [box, state, task],
    );
  await put(ended.box, 'failed');
  await put(ready.box, 'ready');
  await put(resting.box, 'hibernated');
  await put(restoring.box, 'hibernated', 'restore');
  await store.instances.giveUp(site, 10);
  const all = [ended, waiting, ready, resting, restoring].map(({ instance }) => instance);
  const gone = 'destroying';
  expect(await states(all)).toEqual([gone, 'creating', gone, gone, 'creating']);
  const took = { kind: 'cold', ms: 1, cpuMs: null } as const;
  await admin.query("update instances set state = 'destroying' where id = $1", [waiting.instance]);
  const address = 'unix:/none';
  expect(await store.boxes.markReady(waiting.box, { id: waiting.instance, address }, took)).toBeUndefined();
});

test('concurrent reuse requests that wait for one box share their polls', async () => {
  const plan = newBox('one', { userId: 'ada', reusable: true });
  const wanted = { site, template: pool.template, generation: null, memoryMb: pool.memoryMb };
  const begun = await store.allocation.claim(plan, wanted, most);
  const id = newId('i');
  expect(begun && (await store.allocation.reserve(begun.box, { id, site }, most))).toBeDefined();
  let [arrived, polls] = [0, 0];
  const findReusable: typeof store.boxes.findReusable = async (...args) => {
    const found = await store.boxes.findReusable(...args);
    arrived += 1;
    return found;
  };
  const find: typeof store.boxes.find = (...args) => {
    polls += 1;
    return store.boxes.find(...args);
  };
  const none = async () => {};
  const boxes = { ...store.boxes, find, findReusable };
  const directory = { checkHere: () => {}, reach: () => Promise.reject(new Error('it is not ready')) as never };
  const activity = { note: () => {} };
  const reuse = createReuse({ boxes, directory, activity, wake: none, end: none, readyMs: 60_000 });
  const waiting = Promise.all(Array.from({ length: 100 }, () => reuse('one', 'ada')));
  await eventually(async () => arrived === 100);
  await store.boxes.markReady(plan.id, { id, address: 'unix:/none' }, { kind: 'cold', ms: 1, cpuMs: null });
  expect(new Set((await waiting).map((box) => box?.id))).toEqual(new Set([plan.id]));
  expect(polls).toBeLessThan(100);
});

test('the loss of an instance does not affect runs in the instance that its box was restored to since', async () => {
  const { box, instance } = await beginBox();
  const address = 'unix:/none';
  await store.boxes.markReady(box, { id: instance, address }, { kind: 'cold', ms: 1, cpuMs: null });
  const run = async () => {
    const id = newId('exe');
    const fields = { context: null, language: null, timeoutMs: 1000 };
    expect(await store.executions.insert({ id, box, tenant: 'one', ...fields })).toBeDefined();
    return id;
  };
  const before = await run();
  await admin.query("update boxes set checkpoint_id = 'kept' where id = $1", [box]);
  expect(await store.tasks.fallBack(box, instance)).toBeDefined();
  const [task, next] = [newId('task'), newId('i')];
  const row = await store.tasks.begin(box, 'hibernated', 'restore', task);
  expect(row && (await store.allocation.reserve(row, { id: next, site }, most))).toBeDefined();
  expect(await store.tasks.markRestored(box, task, { id: next, address })).toBeDefined();
  const after = await run();
  const lose = () => store.executions.loseAll(box, { code: 'box_lost', detail: '' });
  const statuses = () =>
    Promise.all([before, after].map(async (id) => (await store.executions.find('one', box, id))?.status));
  await lose();
  expect(await statuses()).toEqual(['lost', 'running']);
  expect(await store.tasks.fallBack(box, next)).toBeDefined();
  await lose();
  expect(await statuses()).toEqual(['lost', 'lost']);
});

test('a box that ends while its last instance is removed becomes deleted, whichever is first', async () => {
  const { box, instance } = await beginBox();
  await admin.query("update boxes set state = 'hibernated' where id = $1", [box]);
  const other = new pg.Client(opened.url);
  await other.connect();
  await other.query('begin');
  await other.query('delete from instances where id = $1', [instance]);
  const ending = store.boxes.end(box, 'deleting', { code: 'deleted', detail: '' });
  const waits = "select from pg_stat_activity where wait_event_type = 'Lock' and query like 'update \"instances\"%'";
  await eventually(async () => (await admin.query(waits)).rowCount === 1);
  await other.query('commit');
  await other.end();
  expect(await ending).toMatchObject({ state: 'deleted' });
});

test('a box with two instances becomes deleted once both are gone', async () => {
  const { box, instance } = await beginBox();
  const former = newId('i');
  await admin.query(
    `insert into instances (id, driver, box_id, state, memory_mb)
     select $1, driver, box_id, 'destroying', memory_mb from instances where id = $2`,
    [former, instance],
  );
  await store.boxes.end(box, 'deleting', { code: 'deleted', detail: '' });
  const stateOf = async () => (await admin.query('select state from boxes where id = $1', [box])).rows[0].state;
  await store.instances.forget(instance);
  expect(await stateOf()).toBe('deleting');
  await store.instances.forget(former);
  expect(await stateOf()).toBe('deleted');
});

test('old rows are purged kind by kind, also if one kind fails', async () => {
  const { box } = await beginBox();
  await store.boxes.end(box, 'failed', { code: 'start_failed', detail: '' });
  await admin.query("update boxes set ended_at = now() - interval '1 year' where id = $1", [box]);
  await admin.query("insert into gateways (id, alive_until) values ('gw_dead', now() - interval '1 year')");
  await admin.query("insert into usage (tenant_id, user_id, day) values ('one', 'ada', '2020-01-01')");
  await admin.query(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'this one cannot be deleted'; end $$;
    create trigger refuse before delete on boxes for each row execute function refuse()`);
  const failures: string[] = [];
  const background = createBackground((what) => failures.push(what));
  createPurges({ store, background }).sweep();
  const left = (sql: string) => admin.query(sql).then(({ rowCount }) => rowCount);
  await eventually(async () => (await left("select from usage where day < '2021-01-01'")) === 0);
  expect(await left("select from gateways where id = 'gw_dead'")).toBe(0);
  expect(await left('select from gateways')).toBe(1);
  expect(await left(`select from boxes where id = '${box}'`)).toBe(1);
  await background.drain(10_000);
  expect(failures).toEqual(['purge old boxes']);
  await admin.query('drop trigger refuse on boxes');
  createPurges({ store, background }).sweep();
  await eventually(async () => (await left(`select from boxes where id = '${box}'`)) === 0);
});

test('a box with more executions than one purge deletes is purged nevertheless', async () => {
  const { box } = await beginBox();
  await store.boxes.end(box, 'failed', { code: 'start_failed', detail: '' });
  await admin.query("update boxes set ended_at = now() - interval '1 year' where id = $1", [box]);
  await admin.query(
    `insert into executions (id, box_id, tenant_id, context, language, timeout_ms, status)
     select 'exe-' || n, $1, 'one', 'c', 'python', 1000, 'ok' from generate_series(1, 2500) n`,
    [box],
  );
  expect(await store.boxes.purgeEnded(60, 10)).toBe(0);
  expect(await store.executions.purgeEnded(60, 1000)).toBe(1000);
  const background = createBackground(() => {});
  createPurges({ store, background }).sweep();
  await background.drain(10_000);
  expect(await admin.query('select from boxes where id = $1', [box])).toMatchObject({ rowCount: 0 });
});

test('a transaction of a stalled gateway releases its locks after a timeout', async () => {
  const pool = createPool(opened.url, { onError: () => {} });
  const { rows } = await pool.query('show idle_in_transaction_session_timeout').finally(() => pool.end());
  expect(rows).toEqual([{ idle_in_transaction_session_timeout: '10s' }]);
});

test('a gateway with a late heartbeat is dead only once another has had a steady heartbeat for all that time', async () => {
  const { box } = await beginBox();
  await admin.query(
    `insert into executions (id, box_id, tenant_id, context, language, timeout_ms, status, gateway_id)
     values ('exe-followed', $1, 'one', 'c', 'python', 1000, 'running', 'gw_late')`,
    [box],
  );
  expect(await store.executions.isFollowedIn(box)).toBe(false);
  await admin.query("insert into gateways (id, alive_until) values ('gw_late', now() - interval '1 minute')");
  const steadyFor = (time: string) =>
    admin.query('update gateways set steady_since = now() - $2::interval where id = $1', [gateway, time]);
  await steadyFor('1 second');
  expect(await store.executions.isFollowedIn(box)).toBe(true);
  await steadyFor('1 hour');
  expect(await store.executions.isFollowedIn(box)).toBe(false);
});

test('heartbeats with a gap are not steady', async () => {
  const isSteadyAfter = async (left: string) => {
    await admin.query(
      `insert into gateways (id, alive_until, steady_since) values ('gw_x', now() + $1::interval, now() - interval '1 hour')
       on conflict (id) do update set alive_until = excluded.alive_until, steady_since = excluded.steady_since`,
      [left],
    );
    await store.gateways.renew({ id: 'gw_x', site, place: 'here' });
    const { rows } = await admin.query(
      "select steady_since < now() - interval '1 minute' as steady from gateways where id = 'gw_x'",
    );
    return rows[0].steady;
  };
  expect(await isSteadyAfter('12 seconds')).toBe(true);
  expect(await isSteadyAfter('2 seconds')).toBe(false);
});

test('a task whose rollback failed is taken over, a failed task is not', async () => {
  const background = createBackground(() => {});
  const leases = createLeases({ tasks: store.tasks, background });
  const work = async (taskId: string, error: Error) => {
    const { box } = await beginBox();
    await admin.query("update boxes set state = 'ready' where id = $1", [box]);
    expect(await store.tasks.begin(box, 'ready', 'pause', taskId)).toBeDefined();
    const lease = { boxId: box, taskId, forMs: 60_000, retryMs: () => 0 };
    await expect(leases.run(lease, () => Promise.reject(error))).rejects.toThrow('it broke');
    await admin.query("update boxes set task_until = now() - interval '1 second' where id = $1", [box]);
    return box;
  };
  await work('task-undone', new Error('it broke'));
  const box = await work('task-left', new RollbackFailed(new Error('it broke')));
  expect((await store.tasks.takeOver(site, () => 'task-next', 10)).map(({ id }) => id)).toEqual([box]);
});

test('a place owns its site until it has no gateways or instances left, or is declared replaced', async () => {
  const [a, b] = [
    { id: 'gw_a', site: 'yard', place: 'aaaa' },
    { id: 'gw_b', site: 'yard', place: 'bbbb' },
  ];
  expect(await store.gateways.enter(a)).toBeUndefined();
  expect(await store.gateways.enter({ ...a, id: 'gw_a2' })).toBeUndefined();
  expect(await store.gateways.enter(b, 'any')).toEqual({ by: 'gateways', place: 'aaaa' });
  for (const id of ['gw_a', 'gw_a2']) await store.gateways.leave(id);
  await admin.query("insert into instances (id, driver, state) values ('i_left', 'yard', 'running')");
  expect(await store.gateways.enter(b)).toEqual({ by: 'instances', place: 'aaaa' });
  expect(await store.gateways.enter(b, 'cccc')).toEqual({ by: 'instances', place: 'aaaa' });
  expect(await store.gateways.enter({ ...a, site: 'garden' }, 'any')).toEqual({ by: 'former', site: 'yard' });
  expect(await store.gateways.holdsSite(a)).toBe(true);
  expect(await store.gateways.enter(b, 'aaaa')).toBeUndefined();
  expect([await store.gateways.holdsSite(a), await store.gateways.holdsSite(b)]).toEqual([false, true]);
  await store.gateways.leave('gw_b');
  await store.instances.forget('i_left');
  expect(await store.gateways.enter(a)).toBeUndefined();
  await store.gateways.leave('gw_a');
});

test('a gateway whose site another place has taken over is notified, and sends no more heartbeats', async () => {
  const here = { id: 'gw_here', site: 'shore', place: 'aaaa' };
  const displaced = Promise.withResolvers<Error>();
  const heartbeat = createHeartbeat({
    gateway: here,
    replaced: undefined,
    gateways: store.gateways,
    activity: { flush: async () => {} },
    background: createBackground(() => {}),
    everyMs: 20,
    onDisplaced: displaced.resolve,
  });
  await heartbeat.start();
  await admin.query("update sites set place = 'bbbb' where name = 'shore'");
  expect((await displaced.promise).message).toContain('has taken the site shore over');
  await heartbeat.stop();
  const { rows } = await admin.query("select id from gateways where site = 'shore'");
  expect(rows).toEqual([]);
});

test('gateways divide the boxes of their site, unless there are few, and each box is the share of one', async () => {
  const [of, wanted] = ['divided', { site: 'divided', template: 'python', generation: null, memoryMb: 1024 }];
  const ids = ['gw_one', 'gw_other', 'gw_third'];
  for (const id of ids) await store.gateways.renew({ id, site: of, place: 'here' });
  await admin.query("update gateways set alive_until = now() where id = 'gw_third'");
  const boxes: string[] = [];
  for (let n = 0; n < 12; n++) {
    const begun = await store.allocation.claim(newBox('one'), wanted, most);
    if (!begun) throw new Error('the box was not written');
    const instance = { id: newId('i'), address: 'unix:/none' };
    await store.allocation.reserve(begun.box, { id: instance.id, site: of }, most);
    await store.boxes.markReady(begun.box.id, instance, { kind: 'cold', ms: 1, cpuMs: null });
    boxes.push(begun.box.id);
  }
  const shares = (least: number) =>
    Promise.all(['gw_one', 'gw_other'].map((id) => store.gateways.shareOf({ id, site: of }, least)));
  expect(await shares(7)).toEqual([
    { part: 0, parts: 1 },
    { part: 0, parts: 1 },
  ]);
  const divided = await shares(6);
  expect(divided).toEqual([
    { part: 0, parts: 2 },
    { part: 1, parts: 2 },
  ]);
  const page = { after: '', limit: 100, budgeted: false };
  const parts = await Promise.all(divided.map((share) => store.boxes.listWithInstances(of, { ...page, share })));
  expect(parts.flatMap((part) => part.map(({ box }) => box.id)).sort()).toEqual(boxes.sort());
  expect(parts.every((part) => part.length > 0)).toBe(true);
});
