import { appendFile, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectDatabase as connectAgentDatabase } from '../../services/agent/store/database.ts';
import { ConfigurationError } from '../../services/configuration-error.ts';
import { connectDatabase } from '../../services/gateway/store/database.ts';
import * as schema from '../../services/gateway/store/schema.ts';
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

/** A database of its own, and a connection to it. */
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

/** Brings the tables of both services up to date. */
const bringUp = async (url: string): Promise<void> => {
  await (await connectDatabase(url, () => {})).close();
  await (await connectAgentDatabase(url, () => {})).close();
};

test('a migration that an older gateway is in the way of lets it pass, and comes through', async () => {
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

  // Whoever waits first is to be the one that gives way.
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

describe('a database that the first migrations made', () => {
  /** The services' schemas, and when the last of the migrations was written that the initial one of each replaces. */
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

  /** All that migrations make: tables, columns, indexes, constraints, functions and triggers. */
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

  test('is used on, with what is in it and the tables of a new one', async () => {
    await using old = await makeDatabase('old');
    await using fresh = await makeDatabase('fresh');
    await runFirst(old.client, 0);
    await old.client.query("insert into tenants (id, name) values ('t_kept', 'kept')");
    await bringUp(old.url);
    await bringUp(fresh.url);
    const { rows } = await fresh.client.query(structure);
    expect(rows.length).toBeGreaterThan(200);
    expect((await old.client.query(structure)).rows).toEqual(rows);
    expect((await old.client.query('select name from tenants')).rows).toEqual([{ name: 'kept' }]);
  });

  test('is refused in words when it has not seen the last of them, and left as it is', async () => {
    await using old = await makeDatabase('older');
    await runFirst(old.client, 1);
    const { rows } = await old.client.query(structure);
    for (const open of [connectDatabase, connectAgentDatabase])
      await expect(open(old.url, () => {})).rejects.toThrow(ConfigurationError);
    expect((await old.client.query(structure)).rows).toEqual(rows);
  });
});
