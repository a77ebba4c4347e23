import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { BoxRow } from '../../services/gateway/store/box/boxes.ts';
import { openStore, type Store } from '../../services/gateway/store/store.ts';
import type { Wanted } from '../../services/gateway/store/supply/waiting.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { newId } from '../../services/postgres/id.ts';
import { newBox } from './new-box.ts';

const pool = { template: 'python', generation: 'now', size: 100, memoryMb: 1024 };
const { template, generation, memoryMb } = pool;
const wanted: Wanted = { site: 'none', template, generation, memoryMb };
/** So many instances, and memory for so many of the pool's size. */
const ceilingOf = (instances: number, memoryMb = instances * pool.memoryMb) => ({ instances, memoryMb });
const most = ceilingOf(1000);

let folder: string;
let postgres: EmbeddedPostgres;
/** Of two gateways. */
let stores: [Store, Store];
let admin: pg.Client;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-claims-'));
  postgres = await startEmbeddedPostgres(folder);
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
    await store.pools.reserve('none', pool, id, most);
    await store.pools.admit(id, `unix:/${id}`);
  }
};

test('of 200 claims at two gateways and a drain, each warm instance has one owner', async () => {
  await fill(100);
  const claims = Array.from({ length: 200 }, (_, i) => stores[i % 2 ? 0 : 1].allocation.claim(newBox(), wanted, most));
  const drained = Promise.all(
    stores.map((store) => store.pools.publish('none', [], []).then(() => store.pools.drain('none', 20, 60_000))),
  );
  const answers = await Promise.all(claims);
  const claimed = answers.flatMap((answer) => (answer?.instance ? [answer.instance.id] : []));
  const gone = (await drained).flat().map(({ id }) => id);
  expect(answers.every((answer) => answer !== undefined)).toBe(true);
  expect(new Set([...claimed, ...gone]).size).toBe(100);
  expect(claimed.length + gone.length).toBe(100);
  const rows = await stores[0].instances.after('none', '', 1000);
  const owners = rows.flatMap(({ boxId }) => (boxId === null ? [] : [boxId]));
  expect([owners.length, new Set(owners).size]).toEqual([claimed.length, claimed.length]);
});

test('a pool is filled to its size and not over the ceiling, however many fill it', async () => {
  const [store] = stores;
  await store.pools.publish('none', [pool.template], [{ ...pool, size: 10 }]);
  const reserve = (max: number) =>
    Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        stores[i % 2 ? 0 : 1].pools.reserve('none', pool, newId('i'), ceilingOf(max)),
      ),
    );
  expect((await reserve(7)).filter(Boolean)).toHaveLength(7);
  expect((await reserve(100)).filter(Boolean)).toHaveLength(3);
  expect(await store.pools.lacking('none')).toEqual([]);
});

test("a user's box is written once, and takes one instance", async () => {
  await fill(20);
  const mine = () => newBox('many', { userId: 'ada', reusable: true });
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => stores[i % 2 ? 0 : 1].allocation.claim(mine(), wanted, most)),
  );
  expect(answers.filter(Boolean)).toHaveLength(1);
  expect(await stores[0].pools.warm('none', '', 100)).toHaveLength(19);
});

test('the queue is a turn of every tenant that waits, and who has waited comes before who comes', async () => {
  const [store] = stores;
  const join = async (tenant: string) => {
    const begun = await store.allocation.claim(newBox(tenant), { ...wanted, generation: null }, most);
    if (!begun) throw new Error('it was not written');
    expect(await store.waiting.join(begun.box, wanted, 60_000)).toBe(true);
    return begun.box.id;
  };
  await fill(2);
  const many = [];
  for (let i = 0; i < 6; i++) many.push(await join('many'));
  const one = await join('one');
  const newcomer = await stores[1].allocation.claim(newBox('one'), wanted, most);
  if (!newcomer) throw new Error('it was not written');
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

test('warm instances give way to those who wait and cannot use them, no more than needed', async () => {
  const [store] = stores;
  await fill(3);
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('it was not written');
  await store.waiting.join(begun.box, { ...wanted, generation: null }, 60_000);
  const ask = () => store.waiting.admit('none', [begun.box.id], ceilingOf(3), () => newId('i'));
  const first = await ask();
  expect([first.admitted, first.evicted.length]).toEqual([[], 1]);
  expect(await ask()).toMatchObject({ admitted: [], evicted: [] });
  await store.instances.forget(first.evicted[0]?.id ?? '');
  expect((await ask()).admitted.map(({ boxId }) => boxId)).toEqual([begun.box.id]);
});

test('a box that has ended gets no instance and no place in the queue', async () => {
  const [store] = stores;
  await fill(1);
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('it was not written');
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

test('no number of claims, of starts and of refills takes more memory than there may be', async () => {
  const [store] = stores;
  await fill(4);
  await store.pools.publish('none', [template], [pool]);
  // For three of the four warm ones to become larger, or for one after a refill.
  const ceiling = { instances: 100, memoryMb: 5800 };
  const large = () => newBox('many', { limits: { cpus: 1, memoryMb: 1524, diskMb: 1024, pids: 256 } });
  const begin = async (at: Store) => {
    const begun = await at.allocation.claim(large(), wanted, ceiling);
    if (!begun) throw new Error('it was not written');
    const instance = { id: newId('i'), site: 'none' };
    return begun.instance ?? (await at.allocation.reserve(begun.box, instance, ceiling));
  };
  const asked = Array.from({ length: 30 }, (_, i) => {
    const at = stores[i % 2 ? 0 : 1];
    return i % 3 ? begin(at) : at.pools.reserve('none', pool, newId('i'), ceiling);
  });
  await Promise.all(asked);
  const rows = await store.instances.after('none', '', 1000);
  const promised = rows.reduce((sum, row) => sum + row.memoryMb, 0);
  expect(promised).toBeLessThanOrEqual(ceiling.memoryMb);
  // Nothing more would fit.
  expect(promised).toBeGreaterThan(ceiling.memoryMb - 500);
  for (const row of rows) expect(row.memoryMb).toBe(row.boxId === null ? 1024 : 1524);
});

const limits = (memoryMb: number) => ({ limits: { cpus: 1, memoryMb, diskMb: 1024, pids: 256 } });

test('what an older gateway makes or claims counts with the memory of its box, or of the template', async () => {
  const [store] = stores;
  await fill(1);
  await admin.query('update instances set memory_mb = 0');
  const fits = (memoryMb: number) => store.pools.reserve('none', pool, newId('i'), { instances: 10, memoryMb });
  expect(await fits(2047)).toBe(false);
  const begun = await store.allocation.claim(newBox('many', limits(1524)), wanted, most);
  expect(begun?.instance).not.toBeNull();
  for (const left of [0, 1024]) {
    await admin.query('update instances set memory_mb = $1', [left]);
    expect(await fits(1524 + 1023)).toBe(false);
    expect((await store.pools.census('none')).promisedMb).toBe(1524);
  }
  expect(await fits(1524 + 1024)).toBe(true);
});

test('one that would fit only without boxes of its own tenant keeps no other one waiting, until those are gone', async () => {
  const [store] = stores;
  const ceiling = ceilingOf(10, 5120);
  const cold = { ...wanted, generation: null };
  const begin = async (tenant: string, memoryMb: number, from = wanted) => {
    const begun = await store.allocation.claim(newBox(tenant, limits(memoryMb)), from, ceiling);
    if (!begun) throw new Error('it was not written');
    return begun;
  };
  const reserve = (box: BoxRow) => store.allocation.reserve(box, { id: newId('i'), site: 'none' }, ceiling);
  const own = await begin('many', 2048, cold);
  await reserve(own.box);
  await fill(1);
  const large = await begin('many', 4096, cold);
  expect(await store.waiting.join(large.box, cold, 60_000)).toBe(true);
  // Neither does one behind it.
  const behind = await begin('many', 256, cold);
  expect(await store.waiting.join(behind.box, cold, 60_000)).toBe(true);
  // For longer than others may pass them.
  await admin.query("update waiting set created_at = created_at - interval '1 hour'");
  const waits = [large.box.id, behind.box.id];
  expect(await store.waiting.admit('none', waits, ceiling, () => newId('i'))).toEqual({
    admitted: [],
    evicted: [],
    missing: [],
  });

  // They have to stay, however slow this is.
  await admin.query("update waiting set seen_at = now() + interval '1 hour'");
  expect((await begin('many', 1024)).instance).toBeNull();
  expect(await reserve((await begin('many', 256, cold)).box)).toBeUndefined();
  expect(await reserve((await begin('one', 512, cold)).box)).toBeDefined();
  expect((await begin('one', 1024)).instance).not.toBeNull();
  expect(await store.pools.reserve('none', pool, newId('i'), ceiling)).toBe(true);

  await store.boxes.end(own.box.id, 'deleting', { code: 'deleted', detail: '' });
  expect(await reserve((await begin('one', 256, cold)).box)).toBeUndefined();
  for (const id of waits) await store.waiting.leave(id);
});

test('a box that joins the queue again, because an answer was lost, keeps its one turn', async () => {
  const [store] = stores;
  const begin = async (tenant: string) => {
    const begun = await store.allocation.claim(newBox(tenant), { ...wanted, generation: null }, most);
    if (!begun) throw new Error('it was not written');
    return begun.box;
  };
  const boxes = [await begin('many'), await begin('many')] as const;
  for (const box of [...boxes, boxes[0]]) expect(await store.waiting.join(box, wanted, 60_000)).toBe(true);
  expect(await store.waiting.count('none')).toBe(2);
  const { admitted } = await store.waiting.admit('none', [boxes[0].id, boxes[1].id], ceilingOf(1), () => newId('i'));
  expect(admitted.map(({ boxId }) => boxId)).toEqual([boxes[0].id]);
  await store.waiting.leave(boxes[1].id);
});

test('a box is embodied by the instance that it was restored into, whatever else was made for it', async () => {
  const [store, other] = stores;
  const [first, second, third] = [newId('i'), newId('i'), newId('i')];
  const begun = await store.allocation.claim(newBox(), { ...wanted, generation: null }, most);
  if (!begun) throw new Error('it was not written');
  const { id } = begun.box;
  const reserve = (instance: string) => store.allocation.reserve(begun.box, { id: instance, site: 'none' }, most);
  const embodiedBy = async () => (await other.boxes.find('many', id))?.instance?.id;
  await reserve(first);
  await store.boxes.markReady(id, { id: first, address: 'unix:/first' }, { kind: 'cold', ms: 1, cpuMs: null });
  await store.tasks.begin(id, 'ready', 'hibernate', 'task-kept');
  await store.tasks.markKept(id, 'task-kept', { bytes: 1, spentCpuMs: 0, hibernate: true, unused: false });
  await store.instances.forget(first);

  await store.tasks.begin(id, 'hibernated', 'restore', 'task-cut');
  await reserve(second);
  // Only who has the task now may drop what was made for it.
  await other.tasks.dropInstances(id, 'task-other');
  expect(await embodiedBy()).toBe(second);
  await other.tasks.abandon(id, 'task-cut');
  await other.tasks.begin(id, 'hibernated', 'restore', 'task-done');
  await reserve(third);
  await other.tasks.markRestored(id, 'task-done', { id: third, address: 'unix:/third' });
  const states = new Map((await store.instances.of(id)).map((row) => [row.id, row.state]));
  expect([states.get(second), states.get(third)]).toEqual(['destroying', 'running']);
  // Nor does the end of a restoration end anything but what was made for it.
  expect([await store.tasks.dropInstance(second), await store.tasks.dropInstance(third)]).toEqual([false, false]);
  // What a gateway that was away makes now is not the box.
  for (let n = 0; n < 5; n++) await reserve(newId('i'));
  expect(await embodiedBy()).toBe(third);
});
