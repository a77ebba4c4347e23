import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectDatabase } from '../../services/gateway/store/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { eventually } from '../api/harness.ts';

const migrations = join(import.meta.dirname, '../../services/gateway/store/migrations');
/** The migrations of the first release with pools. */
const released = 12;

let folder: string;
let postgres: EmbeddedPostgres;
/** Two connections of an older gateway. */
let gateway: pg.Client;
let other: pg.Client;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-migration-'));
  postgres = await startEmbeddedPostgres(join(folder, 'data'));
  [gateway, other] = [new pg.Client(postgres.url), new pg.Client(postgres.url)];
  await Promise.all([gateway.connect(), other.connect()]);
  const before = join(folder, 'migrations');
  await cp(migrations, before, { recursive: true });
  const file = join(before, 'meta/_journal.json');
  const journal = JSON.parse(await readFile(file, 'utf8')) as { entries: unknown[] };
  await writeFile(file, JSON.stringify({ ...journal, entries: journal.entries.slice(0, released) }));
  await migrate(drizzle(gateway), { migrationsFolder: before });
});
afterAll(async () => {
  await gateway?.end();
  await other?.end();
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('a migration that an older gateway is in the way of lets it pass, and comes through', async () => {
  await other.query("insert into instances (id, driver, state) values ('i_warm', 'none', 'warm')");
  // Whoever waits first is to be the one that gives way.
  await gateway.query("set deadlock_timeout = '1h'");
  await gateway.query('begin');
  await gateway.query('lock table boxes in row exclusive mode');
  const migrated = connectDatabase(postgres.url, () => {});
  const isWaiting = "select from pg_locks where relation = 'boxes'::regclass and not granted";
  await eventually(async () => (await other.query(isWaiting)).rowCount === 1);
  await gateway.query('lock table instances in row exclusive mode');
  await gateway.query('commit');
  await (await migrated).close();
  expect((await other.query('select memory_mb from instances')).rows).toEqual([{ memory_mb: 1024 }]);
});
