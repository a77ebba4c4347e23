import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openStore } from '../../services/gateway/store/store.ts';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { placeDatabase } from '../prepared-database.ts';

/** Starts a database of its own and opens it: as the store of a gateway, and for statements of the test. */
export const openTestStore = async (gateway: string) => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'codebox-store-'));
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
