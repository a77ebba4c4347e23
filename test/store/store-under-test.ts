import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { expect } from 'vitest';
import { openStore } from '../../services/gateway/store/store.ts';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { newId } from '../../services/postgres/id.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';

/** Starts a database of its own and opens it: as the store of a gateway, and for statements of the test. */
export const openTestStore = async (gateway: string) => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(quickFolder, 'codebox-store-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await placeDatabase(folder);
  const postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  stack.defer(() => postgres.stop());
  const store = await openStore(postgres.url, () => {}, gateway);
  stack.defer(() => store.close());
  const admin = new pg.Pool({ connectionString: postgres.url, max: 1 });
  stack.defer(() => admin.end());
  const things = stack.move();
  return { folder, url: postgres.url, store, admin, close: () => things.disposeAsync() };
};

export const site = 'none';
export const pool = { template: 'python', generation: 'now', size: 100, memoryMb: 1024 };
/** A ceiling that no test reaches. */
export const most = { instances: 1000, memoryMb: 1_024_000 };

/** The same with a tenant `one`, a pool, and a gateway that stays alive for all tests. */
export const openTestPool = async (gateway: string) => {
  const opened = await openTestStore(gateway);
  const { store, admin } = opened;
  await admin.query("insert into gateways (id, alive_until) values ($1, 'infinity')", [gateway]);
  await store.keys.addTenant('one', 'one');
  await store.pools.publish(site, [pool.template], [pool]);
  /** Reserves a place of the pool; resolves with the id of its instance. */
  const reserve = async (): Promise<string> => {
    const id = newId('i');
    expect(await store.pools.reserve(site, pool, [id], most)).toEqual([id]);
    return id;
  };
  return { ...opened, reserve };
};
