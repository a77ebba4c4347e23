import { appendFile, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectDatabase as connectAgentDatabase } from '../../services/agent/store/database.ts';
import { ConfigurationError } from '../../services/configuration-error.ts';
import { connectDatabase } from '../../services/gateway/store/database.ts';
import * as schema from '../../services/gateway/store/schema.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { openDatabase } from '../../services/postgres/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { createPool } from '../../services/postgres/pool.ts';
import { eventually } from '../api/harness.ts';

const migrations = join(import.meta.dirname, '../../services/gateway/store/migrations');

let folder: string;
let postgres: EmbeddedPostgres;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-migration-'));
  postgres = await startEmbeddedPostgres(join(folder, 'data'));
});
afterAll(async () => {
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Creates a database and connects to it. */
const makeDatabase = async (name: string) => {
  const maker = new pg.Client(postgres.url);
  await maker.connect();
  await maker.query(`create database ${name}`);
  await maker.end();
  return await connect(postgres.url.replace('/postgres?', `/${name}?`));
};

const connect = async (url: string) => {
  const client = new pg.Client(url);
  await client.connect();
  return { url, client, [Symbol.asyncDispose]: () => client.end() };
};

/** Runs the migrations of both services. */
const bringUp = async (url: string): Promise<void> => {
  await (await connectDatabase(url, () => {})).close();
  await (await connectAgentDatabase(url, () => {})).close();
};

test('a migration that deadlocks with an older gateway yields to it, and then succeeds', async () => {
  await using database = await makeDatabase('busy');
  await using side = await connect(database.url);
  const other = side.client;
  await bringUp(database.url);
  const next = join(folder, 'migrations');
  await cp(migrations, next, { recursive: true });
  const file = join(next, 'meta/_journal.json');
  const journal = JSON.parse(await readFile(file, 'utf8')) as { entries: object[] };
  const entries = [...journal.entries, { idx: 99, version: '7', when: Date.now(), tag: 'next', breakpoints: true }];
  await writeFile(file, JSON.stringify({ ...journal, entries }));
  for (const table of ['instances', 'boxes'])
    await appendFile(join(next, 'next.sql'), `alter table ${table} add column planted int;--> statement-breakpoint\n`);

  // The migration must be the one that yields.
  await database.client.query("set deadlock_timeout = '1h'");
  await database.client.query('begin');
  await database.client.query('lock table boxes in row exclusive mode');
  const pool = createPool(database.url, { onError: () => {} });
  const migrated = openDatabase(database.url, { schema, migrations: { folder: next, lock: 1 }, pool });
  const isWaiting = "select from pg_locks where relation = 'boxes'::regclass and not granted";
  await eventually(async () => (await other.query(isWaiting)).rowCount === 1);
  await database.client.query('lock table instances in row exclusive mode');
  await database.client.query('commit');
  await (await migrated).close();
  expect((await other.query('select boxes.planted from boxes, instances')).rows).toEqual([]);
});

test('the resource of a keyed request can be read by older and newer gateways, whichever recorded it', async () => {
  await using database = await makeDatabase('keyed');
  const { client } = database;
  const before = join(folder, 'before');
  await cp(migrations, before, { recursive: true });
  const file = join(before, 'meta/_journal.json');
  const journal = JSON.parse(await readFile(file, 'utf8')) as { entries: { tag: string }[] };
  const entries = journal.entries.filter(({ tag }) => tag < '0001');
  await writeFile(file, JSON.stringify({ ...journal, entries }));
  const pool = createPool(database.url, { onError: () => {} });
  await (await openDatabase(database.url, { schema, migrations: { folder: before, lock: 1 }, pool })).close();

  const made = {
    '/v1/boxes/box_1': { kind: 'box', id: 'box_1' },
    '/v1/boxes/box_1/executions/exe_1': { kind: 'execution', box: 'box_1', id: 'exe_1' },
    '/v1/boxes/box_1/commands/cmd-1': { kind: 'command', box: 'box_1', id: 'cmd-1' },
    '/v1/admin/keys/key_1': { kind: 'key', id: 'key_1' },
    '/v1/admin/tenants/ten_1': { kind: 'tenant', id: 'ten_1' },
  };
  const insert = (key: string, location: string | null) =>
    client.query("insert into idempotency_keys (tenant_id, key, request_hash, location) values ('t', $1, '', $2)", [
      key,
      location,
    ]);
  for (const location of [...Object.keys(made), null]) await insert(`before ${location}`, location);
  const versions = async () => (await client.query('select key, xmin from idempotency_keys order by key')).rows;
  const unwritten = await versions();
  await bringUp(database.url);
  // While a migration writes many rows, the older gateway cannot serve keyed requests.
  expect(await versions()).toEqual(unwritten);
  for (const location of Object.keys(made)) {
    await insert(`older ${location}`, null);
    await insert(`newer ${location}`, null);
    await client.query('update idempotency_keys set location = $1 where key = $2', [location, `older ${location}`]);
  }
  for (const [location, reference] of Object.entries(made))
    await client.query('update idempotency_keys set reference = $1 where key = $2', [reference, `newer ${location}`]);
  const store = await openStore(database.url, () => {});
  onTestFinished(() => store.close());
  const known = async () => {
    const { rows } = await client.query<{ key: string }>('select key from idempotency_keys order by key collate "C"');
    return Promise.all(rows.map(async ({ key }) => ({ key, ...(await store.idempotency.find('t', key)) })));
  };
  const expected = ['before', 'newer', 'older'].flatMap((when) =>
    Object.entries(made).map(([location, reference]) => ({ key: `${when} ${location}`, location, reference })),
  );
  expect(await known()).toMatchObject(
    [...expected, { key: 'before null', location: null, reference: null }].toSorted((a, b) => (a.key < b.key ? -1 : 1)),
  );

  // A key that either gateway takes over has no resource yet.
  await client.query("update idempotency_keys set location = null where key like '%box_1'");
  for (const { key } of await known()) {
    const row = await store.idempotency.find('t', key);
    expect(row && (await store.idempotency.takeOver({ tenantId: 't', key, id: 'again' }, row))).toBe(true);
  }
  const { rows: left } = await client.query(
    'select key from idempotency_keys where location is not null or reference is not null',
  );
  expect(left).toEqual([]);
});

describe('a database created by the first migrations', () => {
  /** The schema of each service, and the time of the last migration that its initial one replaces. */
  const services = [
    { name: 'gateway', notedIn: 'drizzle', last: 1795_391_049_328 },
    { name: 'agent', notedIn: 'agent', last: 1795_366_653_957 },
  ];
  const runFirst = async (client: pg.Client, early: number): Promise<void> => {
    for (const { name, notedIn, last } of services) {
      await client.query(await readFile(join(import.meta.dirname, `first-migrations/${name}.sql`), 'utf8'));
      const notes = `${notedIn}.__drizzle_migrations`;
      await client.query(`create schema if not exists ${notedIn};
        create table ${notes} (id serial primary key, hash text not null, created_at bigint);
        insert into ${notes} (hash, created_at) values ('first', ${last - early})`);
    }
  };

  /** Lists everything that migrations create: tables, columns, indexes, constraints, functions and triggers. */
  const structure = `
    with ours as (select oid from pg_namespace where nspname in ('public', 'agent')),
      relations as (select * from pg_class where relnamespace in (table ours) and relname !~ '^__drizzle')
    select 'table' as kind, oid::regclass::text as name, relpersistence::text as is from relations where relkind = 'r'
    union all select 'column', format('%s %s', c.oid::regclass, attname),
        concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid))
      from relations c join pg_attribute a on attrelid = c.oid and attnum > 0 and not attisdropped
        left join pg_attrdef on adrelid = c.oid and adnum = attnum where relkind = 'r'
    union all select 'index', c.oid::regclass::text, pg_get_indexdef(c.oid) from relations c where relkind = 'i'
    union all select 'constraint', format('%s %s', conrelid::regclass, conname), pg_get_constraintdef(k.oid)
      from pg_constraint k join relations c on c.oid = conrelid where contype <> 'n'
    union all select 'function', proname, prosrc from pg_proc where pronamespace in (table ours)
    union all select 'trigger', tgname, pg_get_triggerdef(t.oid)
      from pg_trigger t join relations c on c.oid = tgrelid where not tgisinternal
    order by 1, 2, 3`;

  test('keeps its data, and gets the tables of a new database', async () => {
    await using old = await makeDatabase('old');
    await using fresh = await makeDatabase('fresh');
    await runFirst(old.client, 0);
    await old.client.query("insert into tenants (id, name) values ('t_kept', 'kept')");
    // The first gateways did not write the memory of instances that they created or enlarged.
    await old.client.query(`insert into boxes
        (id, tenant_id, state, template, metadata, limits, network, idle_seconds, expires_at)
        select id, 't_kept', 'ready', 'python', '{}', '{"memoryMb": 1524}', 'none', 900, now()
        from unnest('{created,enlarged}'::text[]) id;
      insert into instances (id, box_id, driver, state, memory_mb)
        values ('1', 'created', 'none', 'running', 0), ('2', 'enlarged', 'none', 'running', 1024), ('3', null, 'none', 'warm', 0)`);
    await bringUp(old.url);
    await bringUp(fresh.url);
    const { rows } = await fresh.client.query(structure);
    expect(rows.length).toBeGreaterThan(200);
    expect((await old.client.query(structure)).rows).toEqual(rows);
    expect((await old.client.query('select name from tenants')).rows).toEqual([{ name: 'kept' }]);
    const { rows: sizes } = await old.client.query<{ mb: number }>('select memory_mb as mb from instances order by id');
    expect(sizes.map(({ mb }) => mb)).toEqual([1524, 1524, 1024]);
  });

  test('is refused with a configuration error, and left unchanged, if the last of them is missing', async () => {
    await using old = await makeDatabase('older');
    await runFirst(old.client, 1);
    const { rows } = await old.client.query(structure);
    for (const open of [connectDatabase, connectAgentDatabase])
      await expect(open(old.url, () => {})).rejects.toThrow(ConfigurationError);
    expect((await old.client.query(structure)).rows).toEqual(rows);
  });
});
