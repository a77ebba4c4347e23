import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Store } from '../../services/gateway/store/store.ts';
import { newId } from '../../services/postgres/id.ts';
import { eventually } from '../api/harness.ts';
import { newBox } from './new-box.ts';
import { most, openTestPool, pool, site } from './store-under-test.ts';

const gateway = 'gw_living';

let opened: Awaited<ReturnType<typeof openTestPool>>;
let store: Store;
let admin: pg.Pool;

beforeAll(async () => {
  opened = await openTestPool(gateway);
  ({ store, admin } = opened);
});
afterAll(() => opened?.close());

/** Creates a ready box that hibernates when idle, and has been idle for an hour. */
const beginHibernating = async (): Promise<string> => {
  const box = newBox('one', { onIdle: 'hibernate' });
  await store.allocation.claim(box, { site, ...pool, generation: null }, most);
  await admin.query(
    "update boxes set state = 'ready', last_active_at = now() - interval '1 hour', expires_at = now() + interval '1 day' where id = $1",
    [box.id],
  );
  return box.id;
};

test('an instance of a pool is given up only while no box has it', async () => {
  const id = await opened.reserve();
  await store.pools.admit(id, `unix:/${id}`);
  const wanted = { site, template: pool.template, generation: pool.generation, memoryMb: pool.memoryMb };
  const claimed = await store.allocation.claim(newBox('one'), wanted, most);
  expect(claimed?.instance?.id).toBe(id);
  expect(await store.pools.discard(id)).toBe(false);
  const other = await opened.reserve();
  expect(await store.pools.discard(other)).toBe(true);
  const rows = await store.instances.after(site, '', 1000);
  expect(rows.find((row) => row.id === other)?.state).toBe('destroying');
});

test('files of boxes whose last attempt failed are saved after those of all others', async () => {
  const made = await Promise.all(Array.from({ length: 3 }, () => beginHibernating()));
  const [failed = '', ...others] = made;
  await admin.query("update boxes set retry_at = now() - interval '1 second' where id = $1", [failed]);
  const claim = async () =>
    (await store.tasks.claimCheckpoints(site, 1000, () => newId('task'), 1)).map(({ id }) => id);
  const claimed = [...(await claim()), ...(await claim()), ...(await claim())];
  expect(claimed.slice(0, 2).sort()).toEqual(others.sort());
  expect(claimed[2]).toBe(failed);
});

test('a box is restored however much CPU time its earlier instances have used', async () => {
  const box = await beginHibernating();
  await admin.query("update boxes set state = 'hibernated', spent_cpu_ms = 3000000000 where id = $1", [box]);
  const instance = newId('i');
  const task = newId('task');
  expect(await store.tasks.begin(box, 'hibernated', 'restore', task)).toBeDefined();
  const restored = await store.tasks.markRestored(box, task, { id: instance, address: 'unix:/x' });
  expect(restored).toMatchObject({ state: 'ready', startupCpuMs: -(2 ** 31) });
  await store.boxes.noteStartup(box, instance, 1000);
});

test('volumes that cannot be removed do not keep the others waiting', async () => {
  const ids = ['one', 'two', 'three'].map((name) => `vol-${name}`);
  for (const id of ids)
    await admin.query(
      "insert into volumes (id, tenant_id, name, site, size_mb, state, gateway_id) values ($1, 'one', $1, $2, 16, 'deleting', $3)",
      [id, site, gateway],
    );
  const seen = new Set<string>();
  await eventually(async () => {
    for (const id of await store.volumes.abandoned(site, 1)) seen.add(id);
    return seen.size === ids.length;
  }, 10_000);
  await admin.query('delete from volumes');
});
