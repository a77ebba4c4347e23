import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { hasCode } from '#contract';
import type { BoxRow } from '../../services/gateway/store/box/boxes.ts';
import { openStore, type Store } from '../../services/gateway/store/store.ts';
import type { Wanted } from '../../services/gateway/store/supply/waiting.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { newId } from '../../services/postgres/id.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';
import { newBox } from './new-box.ts';

const pool = { template: 'python', generation: 'now', size: 100, memoryMb: 1024 };
const { template, generation, memoryMb } = pool;
const wanted: Wanted = { site: 'none', template, generation, memoryMb };
/** A ceiling of instances, and of memory for as many instances of the size of the pool. */
const ceilingOf = (instances: number, memoryMb = instances * pool.memoryMb) => ({ instances, memoryMb });
const most = ceilingOf(1000);
/** Selects the locks that statements wait for. */
const waitedLocks = 'select from pg_locks where not granted';

let folder: string;
let postgres: EmbeddedPostgres;
/** The stores of two gateways. */
let stores: [Store, Store];
let admin: pg.Client;

beforeAll(async () => {
  folder = await mkdtemp(join(quickFolder, 'codebox-claims-'));
  await placeDatabase(folder);
  postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  stores = [await openStore(postgres.url, () => {}), await openStore(postgres.url, () => {})];
  admin = new pg.Client(postgres.url);
  await admin.connect();
  for (const id of ['many', 'one']) await stores[0].keys.addTenant(id, id);
});
afterAll(async () => {
  await admin?.end();
  for (const store of stores ?? []) await store.close();
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  const [store] = stores;
  for (const row of await store.instances.after('none', '', 1000)) await store.instances.forget(row.id);
});

const fill = async (n: number) => {
  const [store] = stores;
  await store.pools.publish('none', [pool.template], [pool]);
  for (let i = 0; i < n; i++) {
    const id = newId('i');
    await store.pools.reserve('none', pool, [id], most);
    await store.pools.admit(id, `unix:/${id}`);
  }
};

test('with 200 claims at two gateways and a drain, each warm instance has one owner', async () => {
  await fill(100);
  const claims = Array.from({ length: 200 }, (_, i) => stores[i % 2 ? 0 : 1].allocation.claim(newBox(), wanted, most));
  const drained = Promise.all(
    stores.map((store) => store.pools.publish('none', [], []).then(() => store.pools.drain('none', 20, 60_000))),
  );
  const results = await Promise.all(claims);
  const claimed = results.flatMap((result) => (result?.instance ? [result.instance.id] : []));
  const gone = (await drained).flat().map(({ id }) => id);
  expect(results.every((result) => result !== undefined)).toBe(true);
  expect(new Set([...claimed, ...gone]).size).toBe(100);
  expect(claimed.length + gone.length).toBe(100);
  const rows = await stores[0].instances.after('none', '', 1000);
  const owners = rows.flatMap(({ boxId }) => (boxId === null ? [] : [boxId]));
  expect([owners.length, new Set(owners).size]).toEqual([claimed.length, claimed.length]);
});

test('concurrent refills fill a pool to its size and never beyond the ceiling', async () => {
  const [store] = stores;
  await store.pools.publish('none', [pool.template], [{ ...pool, size: 10 }]);
  const reserve = (max: number) =>
    Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        stores[i % 2 ? 0 : 1].pools.reserve('none', pool, [newId('i'), newId('i'), newId('i')], ceilingOf(max)),
      ),
    );
  // Neither is a multiple of what one refill asks for.
  expect((await reserve(7)).flat()).toHaveLength(7);
  expect((await reserve(100)).flat()).toHaveLength(3);
  expect(await store.pools.belowTarget('none')).toEqual([]);
});

test('concurrent reuse claims of a user write one box and take one instance', async () => {
  await fill(20);
  const mine = () => newBox('many', { userId: 'ada', reusable: true });
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, i) => stores[i % 2 ? 0 : 1].allocation.claim(mine(), wanted, most)),
  );
  expect(results.filter(Boolean)).toHaveLength(1);
  expect(await stores[0].pools.warm('none', '', 100)).toHaveLength(19);
});

test('the queue serves waiting tenants in turns, and before newcomers', async () => {
  const [store] = stores;
  const join = async (tenant: string) => {
    const begun = await store.allocation.claim(newBox(tenant), { ...wanted, generation: null }, most);
    if (!begun) throw new Error('the box was not written');
    expect(await store.waiting.join(begun.box, wanted, 60_000)).toBe(true);
    return begun.box.id;
  };
  await fill(2);
  const many = [];
  for (let i = 0; i < 6; i++) many.push(await join('many'));
  const one = await join('one');
  const newcomer = await stores[1].allocation.claim(newBox('one'), wanted, most);
  if (!newcomer) throw new Error('the box was not written');
  expect(newcomer.instance).toBeNull();
  const instance = { id: newId('i'), site: 'none' };
  expect(await stores[1].allocation.reserve(newcomer.box, instance, most)).toBeUndefined();
  const admit = async (mine: string[], max: number) =>
    (await store.waiting.admit('none', mine, ceilingOf(max), () => newId('i'))).admitted.map(({ boxId }) => boxId);
  expect(await admit([...many, one], 2)).toEqual([many[0], one]);
  const left = [...many.slice(1), await join('one')];
  expect(await admit(left, 2)).toEqual([]);
  expect(await admit(left, 4)).toEqual([many[1], left.at(-1)]);
  for (const id of left) await store.waiting.leave(id);
});

test('warm instances are evicted for queued boxes that cannot use them, and no more than needed', async () => {
  const [store] = stores;
  await fill(3);
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('the box was not written');
  await store.waiting.join(begun.box, { ...wanted, generation: null }, 60_000);
  const admit = () => store.waiting.admit('none', [begun.box.id], ceilingOf(3), () => newId('i'));
  const first = await admit();
  expect([first.admitted, first.evicted.length]).toEqual([[], 1]);
  expect(await admit()).toMatchObject({ admitted: [], evicted: [] });
  await store.instances.forget(first.evicted[0]?.id ?? '');
  expect((await admit()).admitted.map(({ boxId }) => boxId)).toEqual([begun.box.id]);
});

test('an ended box gets neither an instance nor a place in the queue', async () => {
  const [store] = stores;
  await fill(1);
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('the box was not written');
  const { box } = begun;
  expect(await store.boxes.end(box.id, 'deleting', { code: 'deleted', detail: '' })).toMatchObject({
    state: 'deleted',
  });
  expect(await store.allocation.claimFor(box, wanted, most)).toBeUndefined();
  const instance = { id: newId('i'), site: 'none' };
  await expect(store.allocation.reserve(box, instance, most)).rejects.toMatchObject({ code: 'gone' });
  await expect(store.waiting.join(box, wanted, 60_000)).rejects.toMatchObject({ code: 'gone' });
  expect(await store.pools.warm('none', '', 10)).toHaveLength(1);
});

test('a box that ends while it waits for its restore is no longer in the queue', async () => {
  const [store] = stores;
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('the box was not written');
  const { id } = begun.box;
  await store.waiting.join(begun.box, { ...wanted, generation: null }, 60_000);
  await admin.query("update boxes set state = 'hibernated', expires_at = now() where id = $1", [id]);
  expect((await store.boxes.endOverdue('none', [], 10, 0)).map((box) => box.id)).toEqual([id]);
  expect((await admin.query('select from waiting where box_id = $1', [id])).rowCount).toBe(0);
  expect((await store.waiting.admit('none', [id], most, () => newId('i'))).admitted).toEqual([]);
});

test('concurrent claims, starts and refills never exceed the memory ceiling', async () => {
  const [store] = stores;
  await fill(4);
  await store.pools.publish('none', [template], [pool]);
  // The ceiling lets three of the four warm instances grow, or one after a refill.
  const ceiling = { instances: 100, memoryMb: 5800 };
  const large = () => newBox('many', { limits: { cpus: 1, memoryMb: 1524, diskMb: 1024, pids: 256 } });
  const begin = async (at: Store) => {
    const begun = await at.allocation.claim(large(), wanted, ceiling);
    if (!begun) throw new Error('the box was not written');
    const instance = { id: newId('i'), site: 'none' };
    return begun.instance ?? (await at.allocation.reserve(begun.box, instance, ceiling));
  };
  const attempts = Array.from({ length: 30 }, (_, i) => {
    const at = stores[i % 2 ? 0 : 1];
    return i % 3 ? begin(at) : at.pools.reserve('none', pool, [newId('i')], ceiling);
  });
  await Promise.all(attempts);
  const rows = await store.instances.after('none', '', 1000);
  const promised = rows.reduce((sum, row) => sum + row.memoryMb, 0);
  expect(promised).toBeLessThanOrEqual(ceiling.memoryMb);
  // The rest is too small for another instance.
  expect(promised).toBeGreaterThan(ceiling.memoryMb - 500);
  for (const row of rows) expect(row.memoryMb).toBe(row.boxId === null ? 1024 : 1524);
});

test('a decision on capacity counts what another gateway has taken while it waited for its turn', async () => {
  const [store, other] = stores;
  await fill(1);
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('the box was not written');
  await admin.query('begin');
  // As gateways of the previous version do.
  await admin.query('select pg_advisory_xact_lock(7302113806)');
  const ceiling = ceilingOf(2);
  const decisions = [
    store.allocation.reserve(begun.box, { id: newId('i'), site: 'none' }, ceiling),
    other.pools.reserve('none', pool, [newId('i')], ceiling),
    store.allocation.claim(newBox('many', limits(1025)), wanted, ceiling),
  ];
  await vi.waitUntil(async () => (await admin.query(waitedLocks)).rowCount === 3, 10_000);
  await admin.query("insert into instances (id, driver, state, memory_mb) values ('taken', 'none', 'running', 1024)");
  await admin.query('commit');
  expect(await Promise.all(decisions)).toMatchObject([undefined, [], { instance: null }]);
});

const limits = (memoryMb: number) => ({ limits: { cpus: 1, memoryMb, diskMb: 1024, pids: 256 } });

test('a queued box that its own tenant blocks delays no other tenant until that tenant frees memory', async () => {
  const [store] = stores;
  const ceiling = ceilingOf(10, 5120);
  const cold = { ...wanted, generation: null };
  const begin = async (tenant: string, memoryMb: number, from = wanted) => {
    const begun = await store.allocation.claim(newBox(tenant, limits(memoryMb)), from, ceiling);
    if (!begun) throw new Error('the box was not written');
    return begun;
  };
  const reserve = (box: BoxRow) => store.allocation.reserve(box, { id: newId('i'), site: 'none' }, ceiling);
  const own = await begin('many', 2048, cold);
  await reserve(own.box);
  await fill(1);
  const large = await begin('many', 4096, cold);
  expect(await store.waiting.join(large.box, cold, 60_000)).toBe(true);
  // The same holds for a box queued behind it.
  const behind = await begin('many', 256, cold);
  expect(await store.waiting.join(behind.box, cold, 60_000)).toBe(true);
  // Both have waited longer than the time for which others may overtake.
  await admin.query("update waiting set created_at = created_at - interval '1 hour'");
  const waits = [large.box.id, behind.box.id];
  expect(await store.waiting.admit('none', waits, ceiling, () => newId('i'))).toEqual({
    admitted: [],
    evicted: [],
    missing: [],
  });

  // Both must stay in the queue, however slow this test is.
  await admin.query("update waiting set seen_at = now() + interval '1 hour'");
  expect((await begin('many', 1024)).instance).toBeNull();
  expect(await reserve((await begin('many', 256, cold)).box)).toBeUndefined();
  expect(await reserve((await begin('one', 512, cold)).box)).toBeDefined();
  expect((await begin('one', 1024)).instance).not.toBeNull();
  expect(await store.pools.reserve('none', pool, [newId('i')], ceiling)).toHaveLength(1);

  await store.boxes.end(own.box.id, 'deleting', { code: 'deleted', detail: '' });
  expect(await reserve((await begin('one', 256, cold)).box)).toBeUndefined();
  for (const id of waits) await store.waiting.leave(id);
});

test('a box that joins the queue again after a lost response keeps its single place', async () => {
  const [store] = stores;
  const begin = async (tenant: string) => {
    const begun = await store.allocation.claim(newBox(tenant), { ...wanted, generation: null }, most);
    if (!begun) throw new Error('the box was not written');
    return begun.box;
  };
  const boxes = [await begin('many'), await begin('many')] as const;
  for (const box of [...boxes, boxes[0]]) expect(await store.waiting.join(box, wanted, 60_000)).toBe(true);
  expect(await store.waiting.count('none')).toBe(2);
  const { admitted } = await store.waiting.admit('none', [boxes[0].id, boxes[1].id], ceilingOf(1), () => newId('i'));
  expect(admitted.map(({ boxId }) => boxId)).toEqual([boxes[0].id]);
  await store.waiting.leave(boxes[1].id);
});

test('a restored box belongs to the instance of its restore, whatever other instances were created for it', async () => {
  const [store, other] = stores;
  const [first, second, third] = [newId('i'), newId('i'), newId('i')];
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('the box was not written');
  const { id } = begun.box;
  const reserve = (instance: string) => store.allocation.reserve(begun.box, { id: instance, site: 'none' }, most);
  const instanceId = async () => (await other.boxes.find('many', id))?.instance?.id;
  await reserve(first);
  await store.boxes.markReady(id, { id: first, address: 'unix:/first' }, { kind: 'cold', ms: 1, cpuMs: null });
  await store.tasks.begin(id, 'ready', 'hibernate', 'task-kept');
  await store.tasks.markKept(id, 'task-kept', { bytes: 1, spentCpuMs: 0, hibernate: true, unused: false });
  await store.instances.forget(first);

  await store.tasks.begin(id, 'hibernated', 'restore', 'task-cut');
  await reserve(second);
  // Only the current task may drop the instances of the box.
  await other.tasks.dropInstances(id, 'task-other');
  expect(await instanceId()).toBe(second);
  await other.tasks.abandon(id, 'task-cut');
  await other.tasks.begin(id, 'hibernated', 'restore', 'task-done');
  await reserve(third);
  await other.tasks.markRestored(id, 'task-done', { id: third, address: 'unix:/third' });
  const states = new Map((await store.instances.of(id)).map((row) => [row.id, row.state]));
  expect([states.get(second), states.get(third)]).toEqual(['destroying', 'running']);
  // The end of a restore drops nothing but its own instances.
  expect([await store.tasks.dropInstance(second), await store.tasks.dropInstance(third)]).toEqual([false, false]);
  // Instances that a delayed gateway creates now do not become the box.
  for (let n = 0; n < 5; n++) await reserve(newId('i'));
  expect(await instanceId()).toBe(third);
});

test('an instance can be deleted while its box is being written, without a deadlock', async () => {
  const [store] = stores;
  await fill(1);
  const claimed = await store.allocation.claim(newBox(), wanted, most);
  if (!claimed?.instance) throw new Error('it was not written');
  const { box, instance } = claimed;
  await admin.query('begin');
  await admin.query('select from boxes where id = $1 for update', [box.id]);
  const forgotten = store.instances.forget(instance.id);
  await vi.waitUntil(async () => (await admin.query(waitedLocks)).rowCount, 10_000);
  await admin.query("update instances set state = 'destroying' where id = $1", [instance.id]);
  await admin.query('commit');
  await forgotten;
  expect(await store.instances.of(box.id)).toEqual([]);
});

test('of a new box and the deletion of its volume at the same moment, exactly one succeeds', async () => {
  const [store, other] = stores;
  const ids = Array.from({ length: 30 }, () => newId('vol'));
  for (const id of ids) {
    await store.volumes.begin({ id, tenantId: 'many', userId: null, name: id, sizeMb: 16, site: 'none' }, 1000);
    await store.volumes.markReady(id);
  }
  const outcomes = ids.map(async (id, round) => {
    const box = newBox('many', { volumes: [{ id, name: id, sizeMb: 16, folder: 'x', readOnly: false }] });
    const claim = () =>
      store.allocation.claim(box, { ...wanted, generation: null }, most).catch((error: unknown) => {
        if (!hasCode(error, 'not_found')) throw error;
      });
    const remove = () => other.volumes.delete('many', id);
    await Promise.all(round % 2 ? [claim(), remove()] : [remove(), claim()]);
    const living = await store.boxes.find('many', box.id);
    const found = await store.volumes.find('many', { id });
    return [living !== undefined, found !== undefined];
  });
  for (const [hasBox, hasVolume] of await Promise.all(outcomes)) expect(hasBox).toBe(hasVolume);
});

test('a volume that was made is not given up, and a tenant has one made at a time', async () => {
  const [{ volumes }] = stores;
  const begin = (name: string) => {
    const volume = { id: newId('vol'), tenantId: 'one', userId: null, name, sizeMb: 16, site: 'none' };
    return volumes.begin(volume, 2);
  };
  const made = await begin('made');
  if (!made) throw new Error('The volume was not begun.');
  expect(await begin('made')).toBeUndefined();
  await expect(begin('other')).rejects.toMatchObject({ quota: { name: 'volumesInCreation', limit: 1, used: 1 } });
  await volumes.markReady(made.id);
  // As when the response to the statement before was lost.
  expect(await volumes.giveUp(made.id)).toBe(false);
  expect(await volumes.find('one', { id: made.id })).toMatchObject({ state: 'ready' });
  const other = await begin('other');
  if (!other) throw new Error('The volume was not begun.');
  expect(await volumes.giveUp(other.id)).toBe(true);
  await volumes.forget(other.id);
  expect(await volumes.giveUp(other.id)).toBe(true);
  await volumes.delete('one', made.id);
  expect(await volumes.giveUp(made.id)).toBe(true);
  await volumes.forget(made.id);
});
